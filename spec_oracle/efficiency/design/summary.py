"""What the prompts come to: the best shape of every combination at each budget, and which is best of all."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spec_oracle.efficiency.design import fixed
from spec_oracle.efficiency.design.combinations import LEFT_OUT
from spec_oracle.efficiency.design.figures import ORACLE, Figure
from spec_oracle.efficiency.design.shapes import too_deep
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
