"""What the prompts come to: the best shape of every combination at each budget, and which is best of all."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.design import fixed
from lab.design.combinations import LEFT_OUT
from lab.design.figures import Figure
from lab.design.shapes import too_deep
from spec_oracle.errors import InvalidInputError

RANKS, SLOTS = "fixed ranks", "without replacement, fixed slots"
"""Trees chosen over the other prompts."""


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


@dataclass(frozen=True)
class Row:
    """One combination with one shape at one budget over all prompts; tokens per call.

    ``bound``: the mean one, None where there is none; ``gap``: the largest, None where the bound may be
    loose. ``throughput``: the mean, in tokens in the time of one target call on one token.
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

    @property
    def name(self) -> str:
        """The combination in words."""
        return f"{self.rule} (drafts: {self.drafting}; tree: {self.shape})"


@dataclass(frozen=True)
class Design:
    """``rows`` of all combinations and shapes, best first at each budget; ``left_out`` says what and why.

    ``notes`` on the instances; ``seconds`` of processor time over all prompts, 0 where they were not counted.
    """

    title: str
    prompts: int
    seconds: float
    costs: Costs
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budgets, from the smallest."""
        return tuple(sorted({row.budget for row in self.rows}))

    def best(self, budget: int) -> list[Row]:
        """Return the best shape of each combination at a budget, best first."""
        found: dict[tuple[str, str], Row] = {}
        for row in self.rows:
            if row.budget == budget:
                found.setdefault((row.rule, row.drafting), row)
        return list(found.values())


def design(title: str, cells: Sequence[Mapping[str, Any]], depth: int, costs: Costs) -> Design:
    """Return the best combinations from what `figures.prompt_designs` found for each prompt.

    Raises `InvalidInputError` unless all of them have trees of the same size.
    """
    if len({tuple(cell["sizes"]) for cell in cells}) != 1:
        raise InvalidInputError("design: instances must have the same vocabulary size and draft length")
    figures = [Figure(**one) for cell in cells for one in cell["figures"]]
    budgets = sorted({one.budget for one in figures})
    groups: dict[tuple[Any, ...], list[Figure]] = defaultdict(list)
    for one in (*figures, *_over_other_prompts(cells, budgets)):
        groups[one.budget, one.rule, one.drafting, one.shape].append(one)
    rows = [_row(group, costs) for group in groups.values() if len(group) == len(cells)]
    rows.sort(key=lambda row: (row.budget, -row.throughput))
    seconds = sum(cell.get("seconds", 0.0) for cell in cells)
    left_out = tuple(_left_out(cells, budgets, depth))
    return Design(title, len(cells), seconds, costs, tuple(rows), left_out)


def _row(figures: Sequence[Figure], costs: Costs) -> Row:
    first, tokens = figures[0], [one.tokens for one in figures]
    bounds = [one.bound for one in figures if one.bound is not None]
    gaps = [one.gap for one in figures]
    return Row(
        budget=first.budget,
        rule=first.rule,
        drafting=first.drafting,
        shape=first.shape,
        ours=first.ours,
        mean=float(np.mean(tokens)),
        least=min(tokens),
        most=max(tokens),
        bound=float(np.mean(bounds)) if bounds else None,
        gap=None if None in gaps else max(gap for gap in gaps if gap is not None),
        throughput=float(np.mean([costs.throughput(one) for one in figures])),
    )


def _over_other_prompts(cells: Sequence[Mapping[str, Any]], budgets: Sequence[int]) -> Iterator[Figure]:
    """Yield the trees of fixed ranks and slots, for each prompt the best on the mean of the others.

    With one prompt they are those that are best on it.
    """
    for key, rule, drafting in (("ranks", "nss", RANKS), ("slots", "recursive_rejection_distinct", SLOTS)):
        if not cells[0][key]:
            continue
        values = [[np.array(level) for level in cell[key]] for cell in cells]
        for number, mine in enumerate(values):
            others = [one for other, one in enumerate(values) if other != number] or [mine]
            mean = [np.mean(levels, axis=0) for levels in zip(*others, strict=True)]
            for budget in budgets:
                places = fixed.best_places(mean, budget, in_order=key == "slots")
                tokens = float(fixed.places_tokens(mine, places))
                # On a tree without random tokens a sample of the target attains the bound.
                exact = key == "ranks"
                yield Figure(
                    *(cells[number]["prompt"], budget, rule, drafting, f"{budget} nodes", tokens),
                    *(tokens if exact else None, 0.0 if exact else None),
                    *(len(places), fixed.levels_of(places)),
                )


def _left_out(cells: Sequence[Mapping[str, Any]], budgets: Sequence[int], depth: int) -> Iterator[str]:
    deep = {budget: too_deep(budget, depth) for budget in budgets}
    named = "; ".join(f"{shapes} at {budget} tokens" for budget, shapes in deep.items() if shapes)
    if named:
        yield f"paths longer than the {depth} tokens of a cut: {named}"
    missing: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        for rule, shape, budget in cell["missing"]:
            missing[rule].add(f"{shape} at {budget} tokens")
    for rule, shapes in missing.items():
        yield f"{rule} with too many sets of drafts at a node: {'; '.join(sorted(shapes))}"
    yield from (f"{rule}: {reason}" for rule, reason in LEFT_OUT.items())
