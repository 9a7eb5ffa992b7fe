"""Tokens per call of every combination on every shape after one prompt."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from lab.design import fixed
from lab.design.bounds import bound_for
from lab.design.combinations import Combination, combinations_of
from lab.design.models import Models, joint
from lab.design.shapes import shapes_for, single_path
from lab.design.walks import TooManyDraftsError, steps_of
from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.errors import SpecOracleError
from spec_oracle.toy import Instance
from verifiers import Siblings

LIKELIEST, ORACLE = "likeliest under the draft", "likeliest under the target"
"""Trees of prefixes: the second is one that no drafter knows, for comparison."""

DRAFTING = {
    Siblings.INDEPENDENT: "independent",
    Siblings.DISTINCT: "without replacement",
    Siblings.TOP_AND_SAMPLED: "top and one sampled",
}

TOLERANCE = 1e-9
"""How far rounding may lift tokens per call above their bound."""

SLOTTED, SLOTS = "recursive_rejection_distinct", 4
"""The rule of trees of fixed slots, and the most slots at a node."""


@dataclass(frozen=True)
class Figure:
    """One combination on one shape at one budget after one prompt.

    ``tokens`` per call; ``bound`` that no lossless rule exceeds with these drafts, at most ``gap`` above what
    some rule attains (None: not known, as the bound may be). ``drafted`` tokens take ``levels`` draft calls.
    """

    prompt: str
    budget: int
    rule: str
    drafting: str
    shape: str
    tokens: float
    bound: float | None
    gap: float | None
    drafted: int
    levels: int
    ours: bool = False


def prompt_designs(
    prompt: str, instance: Instance, budgets: Sequence[int], rules: list[str] | None
) -> dict[str, Any]:
    """Return, for JSON, the ``figures`` of one instance, what is ``missing``, values of ranks and slots.

    ``rules`` are names of `combinations_of`, all with None. Trees without random tokens are for `nss`.

    Raises `SpecOracleError` if a combination exceeds its bound: then one of the two is wrong.
    """
    models = Models.of(instance)
    bound = cache(partial(bound_for, instance, models))
    figures: list[Figure] = []
    missing: set[tuple[str, str, int]] = set()
    for combination in combinations_of(rules):
        figure = cache(combination.figure(models))
        for budget, shape in _places(combination, budgets, models):
            try:
                tokens = float(figure(shape))
            except TooManyDraftsError:
                missing.add((combination.rule, str(shape), budget))
                continue
            best = bound(shape, combination.drafting)
            if tokens > best.tokens + TOLERANCE:
                raise SpecOracleError(
                    f"{prompt!r}: {combination.rule} on {shape} emits {tokens} tokens per call, "
                    f"more than its bound {best.tokens}"
                )
            drawn, sizes = DRAFTING[combination.drafting], (shape.tokens, shape.levels)
            named = prompt, budget, combination.rule, drawn, str(shape)
            figures.append(Figure(*named, tokens, best.tokens, best.gap, *sizes, combination.ours))
    found: dict[str, Any] = {"sizes": [models.vocab_size, models.depth], "ranks": [], "slots": []}
    if not rules or "nss" in rules:
        figures += _chosen(prompt, models, budgets)
        found["ranks"] = [level.tolist() for level in fixed.rank_values(models)]
    if not rules or SLOTTED in rules:
        steps, slots = steps_of(SLOTTED, Siblings.DISTINCT, models), min(SLOTS, models.widest)
        found["slots"] = [level.tolist() for level in fixed.slot_values(models, steps, slots)]
    return {**found, "figures": [asdict(one) for one in figures], "missing": sorted(missing)}


def _places(
    combination: Combination, budgets: Sequence[int], models: Models
) -> Iterator[tuple[int, FanOuts]]:
    """Yield every budget with the shapes that the combination takes."""
    widest = None if combination.drafting is Siblings.INDEPENDENT else models.widest
    for budget in budgets:
        shapes = (single_path(budget, models.depth), *shapes_for(budget, models.depth, widest))
        for shape in dict.fromkeys(shapes):
            if combination.suits(shape, models.widest):
                yield budget, shape


def _chosen(prompt: str, models: Models, budgets: Sequence[int]) -> Iterator[Figure]:
    """Yield the trees of likeliest prefixes: their optimum is what a sample of the target attains."""
    values = joint(models.target)
    for drafting, rows in ((LIKELIEST, models.draft), (ORACLE, models.target)):
        for budget in budgets:
            nodes = fixed.likeliest_nodes(rows, budget)
            tokens = float(fixed.places_tokens(values, nodes))
            sizes = len(nodes), fixed.levels_of(nodes)
            yield Figure(prompt, budget, "nss", drafting, f"{budget} nodes", tokens, tokens, 0.0, *sizes)


def measure_prompt(
    *, seed: int, prompt: str, budgets: Sequence[int], rules: list[str] | None, **pair: Any
) -> dict[str, Any]:
    """Return the figures of draft trees and rules on the tree of two language models after one prompt.

    ``budgets`` are numbers of drafted tokens, ``rules`` names, all with None; ``pair`` as for `prompt`. With
    the ``seconds`` of processor time that it took.
    """
    from spec_oracle.language_models.cuts import cut_instance

    del seed
    started = time.process_time()
    instance = cut_instance(prompt, **pair, after_paths=False)
    found = prompt_designs(prompt, instance, budgets, rules)
    return {**found, "seconds": time.process_time() - started}
