"""Tokens per call of every combination on every shape, prompt by prompt, and the best of them over all prompts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from spec_oracle.efficiency.design import fixed
from spec_oracle.efficiency.design.bounds import Bound, bound_for
from spec_oracle.efficiency.design.combinations import COMBINATIONS, Combination, combinations_of
from spec_oracle.efficiency.design.models import Models
from spec_oracle.efficiency.design.shapes import Shape, shapes_for, single_path, too_deep
from spec_oracle.efficiency.design.walks import TooManyDraftsError, steps_of
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.toy import Instance
from verifiers import Drafting

TOLERANCE = 1e-9
"""How far rounding may lift tokens per call above their bound."""

SLOTS = 4
"""The most drafts at a node of which a tree of Sequoia's is made."""

ORACLE = "likeliest under the target"
"""A tree that no drafter knows: for comparison, never the best."""


@dataclass(frozen=True)
class Figure:
    """One combination on one shape at one budget after one prompt.

    ``tokens`` per call; ``bound`` that no lossless rule exceeds with these drafts, at most ``gap`` above what
    some rule attains (None: not known); ``drafted`` tokens in ``levels`` calls of the draft.
    """

    prompt: str
    budget: int
    rule: str
    drafting: str
    shape: str
    tokens: float
    bound: float
    gap: float | None
    drafted: int
    levels: int
    ours: bool = False


@dataclass(frozen=True)
class Costs:
    """Time in units of one target call on one token: per call of the draft, drafted token, and verification.

    A level of the tree is one call of the draft, whatever its width; the target call takes 1 and ``target``
    for each drafted token that it reads.
    """

    draft: float = 0.0
    target: float = 0.0
    verify: float = 0.0

    def throughput(self, figure: Figure) -> float:
        """Return tokens in the time of one target call on one token."""
        time = 1 + self.draft * figure.levels + self.target * figure.drafted + self.verify
        return figure.tokens / time


def prompt_designs(
    prompt: str, instance: Instance, budgets: Sequence[int], rules: list[str] | None
) -> dict[str, Any]:
    """Return, for JSON, the ``figures`` of one instance, what is ``missing``, and the values of ranks and slots.

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
            figures.append(_figure(prompt, budget, combination, shape, tokens, bound(shape, combination.drafting)))
    figures += _chosen(prompt, models, budgets)
    slots = fixed.slot_values(
        models,
        steps_of("recursive_rejection_distinct", Drafting.DISTINCT, models),
        min(SLOTS, models.vocab_size),
    )
    return {
        "figures": [asdict(one) for one in figures],
        "missing": sorted(missing),
        "ranks": [level.tolist() for level in fixed.rank_values(models)],
        "slots": [level.tolist() for level in slots],
    }


def _places(
    combination: Combination, budgets: Sequence[int], models: Models
) -> Iterator[tuple[int, Shape]]:
    """Yield every budget with the shapes that the combination takes."""
    widest = None if combination.drafting is Drafting.INDEPENDENT else models.vocab_size
    for budget in budgets:
        shapes = (single_path(budget, models.depth), *shapes_for(budget, models.depth, widest))
        for shape in dict.fromkeys(shapes):
            if combination.suits(shape, models.vocab_size):
                yield budget, shape


def _figure(
    prompt: str, budget: int, combination: Combination, shape: Shape, tokens: float, bound: Bound
) -> Figure:
    if tokens > bound.tokens + TOLERANCE:
        raise SpecOracleError(
            f"{prompt!r}: {combination.rule} on {shape} emits {tokens} tokens per call, "
            f"more than its bound {bound.tokens}"
        )
    sizes = shape.tokens, shape.levels
    name, drafting = combination.rule, DRAFTING[combination.drafting]
    return Figure(
        prompt, budget, name, drafting, str(shape), tokens, bound.tokens, bound.gap, *sizes, combination.ours
    )


DRAFTING = {
    Drafting.INDEPENDENT: "independent",
    Drafting.DISTINCT: "without replacement",
    Drafting.TOP_AND_SAMPLED: "top and one sampled",
}


def _chosen(prompt: str, models: Models, budgets: Sequence[int]) -> Iterator[Figure]:
    """Yield the trees of likeliest prefixes: their optimum is what a sample of the target attains."""
    for drafting, rows in ((LIKELIEST, models.draft), (ORACLE, models.target)):
        for budget in budgets:
            nodes = fixed.likeliest_nodes(rows, budget)
            tokens = float(fixed.nodes_tokens(models, nodes))
            levels = 1 + max(depth for depth, _ in nodes)
            yield Figure(
                prompt, budget, "nss", drafting, f"{len(nodes)} nodes", tokens, tokens, 0.0, len(nodes), levels
            )


LIKELIEST, RANKS, SLOTTED = "likeliest under the draft", "fixed ranks", "without replacement, fixed slots"


@dataclass(frozen=True)
class Row:
    """One combination at one budget, with its best shape, over all prompts; tokens per call.

    ``bound`` is the mean one; ``gap`` the largest, None where the bound may be loose; ``throughput`` the mean.
    """

    budget: int
    rule: str
    drafting: str
    shape: str
    ours: bool
    mean: float
    least: float
    most: float
    bound: float | None
    gap: float | None
    throughput: float

    @property
    def headroom(self) -> float | None:
        """The share by which the mean stays below the bound."""
        return None if self.bound is None else 1 - self.mean / self.bound


@dataclass(frozen=True)
class Design:
    """What was found: ``rows`` of all combinations with their shapes, best first at each budget."""

    title: str
    costs: Costs
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budgets, in order."""
        return tuple(dict.fromkeys(row.budget for row in self.rows))

    def best(self, budget: int) -> list[Row]:
        """Return the best shape of each rule and drafting at a budget, best first."""
        found: dict[tuple[str, str], Row] = {}
        for row in self.rows:
            if row.budget == budget:
                found.setdefault((row.rule, row.drafting), row)
        return list(found.values())
