"""Claims about one token drafted several times (L = 1)."""

from fractions import Fraction
from itertools import product

import numpy as np

from lab.claims.families import context_free
from lab.claims.laws import acceptance, optimum, total_variation
from lab.claims.question import Figures, Question
from spec_oracle.toy import Instance

STEPS = context_free(paths=(2, 3), denominators=(1, 2, 3)) + context_free(
    vocab_sizes=(3,), paths=(2,), denominators=(1, 2, 3)
)
WALKS = ("nss", "naive", "recursive_rejection", "k_seq", "canonical", "traversal", "greedy_multipath_block")

ABOVE_ONE_MINUS_1_OVER_E = Fraction(633, 1000)
"""An upper bound of 1 - 1/e: what exceeds this exceeds that."""


def subset_rule(instance: Instance) -> Fraction:
    """Return alpha*, the largest acceptance probability of one step: min of 1 - p(S) + 1 - (1 - q(S))^n."""
    target, draft = instance.exact.target.levels[0][0], instance.exact.draft.levels[0][0]
    subsets = product((0, 1), repeat=instance.vocab_size)
    hits = ((target @ inside, draft @ inside) for inside in subsets)
    return min(Fraction(1 - p + 1 - (1 - q) ** instance.num_paths) for p, q in hits)


def _walks(instance: Instance) -> Figures:
    return {**{name: acceptance(name, instance) for name in WALKS}, "α*": subset_rule(instance)}


def _top_draft(instance: Instance) -> Figures:
    """With T the K - 1 likeliest tokens and q' the law of the sampled draft: p(T) + sum min(p, q')."""
    target, draft = instance.target.levels[0][0], instance.draft.levels[0][0]
    order = np.argsort(-draft, kind="stable")
    top, rest = order[: instance.num_paths - 1], order[instance.num_paths - 1 :]
    left = draft[rest].sum()
    # Where q has nothing left, the last draft is drawn from q itself and lands on a top token.
    sampled = np.minimum(target[rest], draft[rest] / left).sum() if left else 0
    return {
        "top_draft": acceptance("top_draft", instance),
        "p(T) + Σ min(p, q')": Fraction(target[top].sum() + sampled),
    }


QUESTIONS = (
    Question(
        f"No one-step rule over independent drafts accepts more than α* ({', '.join(WALKS)})",
        "arXiv 2502.18779; 2511.15898",
        _walks,
        lambda figures: max(figures.values()) == figures["α*"],
        STEPS,
    ),
    Question(
        "The K-path optimum at L = 1 is 1 + α*: linear program and subset rule agree",
        "arXiv 2502.18779; 2511.15898",
        lambda instance: {
            "K-path optimum": optimum("K-path optimum", instance),
            "1 + α*": 1 + subset_rule(instance),
        },
        lambda figures: figures["K-path optimum"] == figures["1 + α*"],
        STEPS,
    ),
    Question(
        "Top drafts plus one sampled draft accept p(T) + Σ min(p, q') over the tokens outside T",
        "arXiv 2502.18779; 2411.05289",
        _top_draft,
        lambda figures: figures["top_draft"] == figures["p(T) + Σ min(p, q')"],
        STEPS,
    ),
    Question(
        "K-SEQ is lossless",
        "arXiv 2310.15141",
        lambda instance: {"total variation": total_variation("k_seq", instance)},
        lambda figures: figures["total variation"] == 0,
        STEPS,
    ),
    Question(
        "K-SEQ accepts at least (1 − 1/e) α*",
        "arXiv 2310.15141",
        lambda instance: {"k_seq": acceptance("k_seq", instance), "α*": subset_rule(instance)},
        lambda figures: figures["k_seq"] >= ABOVE_ONE_MINUS_1_OVER_E * figures["α*"],
        STEPS,
    ),
    Question(
        "Selecting a draft by p/q and applying the token rule to it attains α*",
        "rule: arXiv 2410.18234",
        lambda instance: {"canonical": acceptance("canonical", instance), "α*": subset_rule(instance)},
        lambda figures: figures["canonical"] == figures["α*"],
        STEPS,
    ),
)
