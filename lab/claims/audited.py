"""Claims of published code about its own rules, `lab.claims.published`: what enumeration says of them.

Kullback-Leibler divergences (KL) are sums of float64 logarithms, known to 1e-12, times exact probabilities;
they are truncated to four decimals, so that a budget which they exceed is exceeded.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from lab.claims.families import Family, context_free, prefix_dependent
from lab.claims.laws import law, optimum, tokens, total_variation
from lab.claims.published import (
    BatchGreedy,
    Cactus,
    Hierarchical,
    HierarchicalCapped,
    SynchronousSSD,
)
from lab.claims.question import Figures, Question
from lab.claims.siblings import SiblingWalk
from lab.claims.single_path import CHAINS
from spec_oracle.optimum import check_certificate, multi_path_optimum
from spec_oracle.toy import Instance, ToyModel
from verifiers import AnyVerifier, Siblings
from verifiers.rules.recursive_rejection_distinct import reject_distinct_in_turn

HSD_CODE: Final = "arXiv 2601.05724; ZhouYuxuanYX/Hierarchical-Speculative-Decoding at"
HSD: Final = f"{HSD_CODE} 3b1ae00, transformers/generation/utils.py"
HSD_CLEAN: Final = f"{HSD_CODE} 8974510, algorithm_clean.py"
CACTUS: Final = "arXiv 2604.04987; MANGA-UOFA/Cactus at 3b01b81, cactus/cactus.py"
SSD: Final = "arXiv 2603.03251; tanishqkumar/ssd at 1052168, ssd/utils/verify.py"
EAGLE_1: Final = "SafeAILab/EAGLE at 08dc06c, eagle/model/utils.py, `evaluate_posterior`"
EAGLE: Final = "SafeAILab/EAGLE at 8009b6d, eagle/model/utils.py, `evaluate_posterior`"
EQSPEC: Final = "arXiv 2510.22876; eBay/spec_dec at db102b6, src/custom/verification.py"

BUDGET: Final = Fraction(1, 20)
WIDER: Final = Fraction(1, 18)
STEPS: Final = context_free(vocab_sizes=(2, 3), denominators=range(1, 11))
SIBLINGS: Final = context_free(vocab_sizes=(2, 3), paths=(2,), denominators=range(1, 4)) + prefix_dependent(
    [(2, 2, 2), (2, 3, 2)], count=8
)


def _certain(row: Any) -> list[Fraction]:
    """Return the distribution that is certain of the most likely token of a row."""
    likeliest = int(np.argmax(row))
    return [Fraction(int(token == likeliest)) for token in range(len(row))]


def _likeliest(row: Any, count: int) -> list[Fraction]:
    """Return the distribution that is uniform over the ``count`` most likely tokens of a row."""
    top = {*np.argsort(-row, kind="stable")[:count].tolist()}
    return [Fraction(int(token in top), count) for token in range(len(row))]


def _top_below(paths: int, depth: int, row: Any) -> list[Fraction]:
    return _certain(row) if depth else _likeliest(row, paths)


def _mapped(model: ToyModel, change: Callable[[int, Any], list[Fraction]]) -> ToyModel:
    rows = {
        context: change(depth, model.conditional(context))
        for depth in range(model.order + 1)
        for context in product(range(model.vocab_size), repeat=depth)
    }
    return ToyModel.from_conditionals(rows, order=model.order)


def greedy(family: Family) -> Family:
    """Return a family with every target row certain of its most likely token."""

    def instances() -> Iterator[Instance]:
        for one in family.instances():
            target = _mapped(one.target, lambda _, row: _certain(row))
            yield Instance(target, one.draft, one.draft_length, one.num_paths)

    return Family(f"target rows certain of the most likely token of: {family.name}", instances)


def deterministic_trees(family: Family) -> Family:
    """Return a family whose draft tree is certain: the K likeliest first tokens, the likeliest below each.

    Its drafts are sampled without replacement from the K tokens.
    """

    def instances() -> Iterator[Instance]:
        for one in family.instances():
            draft = _mapped(one.draft, partial(_top_below, one.num_paths))
            yield Instance(one.target, draft, one.draft_length, one.num_paths)

    name = "trees of the K likeliest first tokens with the likeliest token below each, by the draft rows of"
    return Family(f"{name}: {family.name}", instances)


def _spread(most: int) -> Family:
    """Return p = (1/2, 1/(2n), ...) and q = (0, 1/n, ...) for n = 1..most."""

    def instances() -> Iterator[Instance]:
        for count in range(1, most + 1):
            share, half = Fraction(1, count), Fraction(1, 2)
            target, draft = [half] + [half * share] * count, [Fraction(0)] + [share] * count
            yield Instance.context_free(target, draft, draft_length=1)

    name = f"p = (1/2, 1/(2n), ..., 1/(2n)), q = (0, 1/n, ..., 1/n) after every context, n = 1..{most}, L = 1"
    return Family(name, instances)


TREES: Final = deterministic_trees(prefix_dependent([(1, 3, 2), (2, 3, 2), (2, 4, 3)], count=8))
ONE_SIBLING: Final = context_free(lengths=(1, 2), vocab_sizes=(2,), denominators=range(1, 4))


def _tv(verifier: AnyVerifier) -> Callable[[Instance], Figures]:
    return lambda instance: {"total variation": total_variation(verifier, instance)}


def _is_zero(figures: Figures) -> bool:
    return figures["total variation"] == 0


def _lossless(statement: str, source: str, verifier: AnyVerifier, family: Family) -> Question:
    return Question(statement, source, _tv(verifier), _is_zero, family)


def _emitted(verifier: AnyVerifier, instance: Instance) -> Fraction:
    return Fraction(law(verifier, instance).block_efficiency)


def _above_optimum(verifier: AnyVerifier) -> Callable[[Instance], Figures]:
    return lambda instance: {
        "HSD": _emitted(verifier, instance),
        "single-path optimum": optimum("single-path optimum", instance),
    }


def _distance_from_block(instance: Instance) -> Figures:
    pairs = zip(
        law(Hierarchical(corrected=True), instance).masses, law("block", instance).masses, strict=True
    )
    return {"distance of the distributions": Fraction(sum(abs(a - b).sum() for a, b in pairs)) / 2}


def divergence(emitted: Any, target: Any) -> Fraction:
    """Return KL(emitted || target) in nats, truncated to four decimals; rows of probabilities [V]."""
    terms = (float(e) * math.log(float(e / p)) for e, p in zip(emitted, target, strict=True) if e)
    return Fraction(math.floor((math.fsum(terms) - 1e-12) * 10**4), 10**4)


def _of_one_draft(instance: Instance) -> Figures:
    target, draft = instance.exact.target.levels[0][0], instance.exact.draft.levels[0][0]
    every = np.flatnonzero(draft * target > 0)
    rows = Cactus(BUDGET).favoured(np.stack([target] * len(every)), every) if len(every) else []
    worst = max((divergence(row, target) for row in rows), default=Fraction(0))
    return {"largest KL(h, p)": worst, "budget": BUDGET}


def _of_the_emitted(instance: Instance, budget: Fraction = BUDGET) -> Figures:
    first = law(Cactus(budget), instance).extended().sum(axis=1)
    return {"KL(emitted, p)": divergence(first, instance.exact.target.levels[0][0]), "budget": budget}


def _tree_figures(instance: Instance) -> Figures:
    """Figures of a deterministic tree: what EAGLE's rule emits, the sum over nodes, the linear program."""
    best = multi_path_optimum(instance, drafting=Siblings.DISTINCT, exact=True)
    check_certificate(instance, best.certificate)
    return {
        "EAGLE's rule": _emitted(SiblingWalk(), instance),
        "Σ p(v)": _sum_over_nodes(instance),
        "optimum": Fraction(best.value),
    }


def _sum_over_nodes(instance: Instance, context: tuple[int, ...] = ()) -> Fraction:
    if len(context) == instance.draft_length:
        return Fraction(1)
    children = zip(instance.draft.conditional(context), instance.target.conditional(context), strict=True)
    below = (Fraction(p) * _sum_over_nodes(instance, (*context, x)) for x, (q, p) in enumerate(children) if q)
    return 1 + sum(below, Fraction(0))


def _certain_siblings(instance: Instance) -> Figures:
    sampled = SiblingWalk(Siblings.INDEPENDENT)
    return {
        "siblings as certain": _emitted(sampled, instance),
        "recursive_rejection": tokens("recursive_rejection", instance),
    }


QUESTIONS = (
    _lossless(
        "HSD, which accepts the whole path with probability min(1, r_L), is lossless",
        HSD,
        Hierarchical(),
        CHAINS,
    ),
    Question(
        "HSD emits at most what a lossless rule for one path can",
        HSD,
        _above_optimum(Hierarchical()),
        lambda found: found["HSD"] <= found["single-path optimum"],
        CHAINS,
    ),
    Question(
        "HSD becomes block verification when it accepts the whole path with its weight w_L in place of r_L",
        "ours, of HSD",
        _distance_from_block,
        lambda found: found["distance of the distributions"] == 0,
        CHAINS,
    ),
    _lossless("HSD with weights min(1, r_k) is lossless", HSD_CLEAN, HierarchicalCapped(), CHAINS),
    Question(
        f"The distribution h that Cactus puts in place of p for a drafted token has KL(h, p) of at most its "
        f"budget, {BUDGET} (nats, truncated to four decimals)",
        CACTUS,
        _of_one_draft,
        lambda found: found["largest KL(h, p)"] <= found["budget"],
        STEPS,
    ),
    Question(
        f"The token that Cactus emits has KL(emitted, p) of at most its budget {BUDGET} (nats, truncated to "
        "four decimals)",
        CACTUS,
        _of_the_emitted,
        lambda found: found["KL(emitted, p)"] <= found["budget"],
        STEPS,
    ),
    Question(
        f"The token that Cactus emits has KL(emitted, p) of at most ten times its budget, here {WIDER}",
        CACTUS,
        lambda instance: _of_the_emitted(instance, WIDER),
        lambda found: found["KL(emitted, p)"] <= 10 * found["budget"],
        _spread(5),
    ),
    _lossless(
        "The synchronous path of SSD is lossless at temperatures above 0", SSD, SynchronousSSD(), CHAINS
    ),
    _lossless(
        "The synchronous path of SSD is lossless at temperature 0", SSD, SynchronousSSD(), greedy(CHAINS)
    ),
    _lossless("EAGLE's rule for siblings is lossless on deterministic trees", EAGLE, SiblingWalk(), TREES),
    Question(
        "On deterministic trees EAGLE's rule emits Σ p(v) over the nodes, and no lossless rule emits more",
        f"theory, Deterministic trees; {EAGLE}",
        _tree_figures,
        lambda found: len(set(found.values())) == 1,
        TREES,
    ),
    _lossless(
        "EAGLE's rule for siblings, which ignores q, is lossless where the siblings are sampled from q",
        EAGLE,
        SiblingWalk(Siblings.INDEPENDENT),
        SIBLINGS,
    ),
    Question(
        "On siblings sampled from q EAGLE's rule emits as many tokens as recursive rejection, or more",
        EAGLE,
        _certain_siblings,
        lambda found: found["siblings as certain"] >= found["recursive_rejection"],
        SIBLINGS,
    ),
    _lossless(
        "EAGLE 1's rule for siblings, which renormalises q after a refusal, is lossless where siblings are "
        "sampled without replacement",
        EAGLE_1,
        SiblingWalk(rule=reject_distinct_in_turn),
        SIBLINGS,
    ),
    _lossless(
        "EAGLE 1's rule for siblings is lossless where all but the last are the most likely tokens instead",
        f"variant of {EAGLE_1}",
        SiblingWalk(Siblings.TOP_AND_SAMPLED, reject_distinct_in_turn),
        SIBLINGS,
    ),
    _lossless(
        "EAGLE is lossless at temperature 2, where this version samples the bonus token at temperature 1 "
        "(later versions do not, see pull request 215)",
        EAGLE,
        SiblingWalk(Siblings.INDEPENDENT, raw_bonus=True),
        ONE_SIBLING,
    ),
    _lossless("EQSPEC emits the target's greedy completion", EQSPEC, BatchGreedy(), greedy(CHAINS)),
    Question(
        "EQSPEC emits as many tokens per call as greedy verification with a bonus token",
        EQSPEC,
        lambda instance: {
            "EQSPEC": _emitted(BatchGreedy(), instance),
            "with a bonus token": tokens("sample_and_match", instance),
        },
        lambda found: found["EQSPEC"] == found["with a bonus token"],
        greedy(CHAINS),
    ),
)
