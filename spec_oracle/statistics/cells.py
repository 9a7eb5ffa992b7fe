"""Cells: a law's outcomes, grouped so that a test's p-value can be trusted.

Outcomes of probability zero belong to no cell. They are the support cells: one draw there is a proof, not
evidence, and no test dilutes it with a p-value.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spec_oracle.arrays import Floats, Integers, Numbers
from spec_oracle.validation import require_draws, require_law, require_positive

MIN_EXPECTED = 50.0
"""Fewest expected draws in a cell for limit laws to be used far out in the tail.

The textbook's 5 is a rule for rates of 1e-2; `spec_oracle.statistics.goodness_of_fit` says how far 50 goes.
"""


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of the support of a law over V outcomes into C cells.

    ``cell_of`` int [V], the cell of each outcome, -1 for outcomes of probability zero; ``probabilities``
    [C], the mass of each cell, positive, total one.
    """

    cell_of: Integers
    probabilities: Floats

    def __len__(self) -> int:
        return self.probabilities.size

    @cached_property
    def hidden_mass(self) -> float:
        """Mass of the cells that hold several outcomes: what a defect inside single cells can move at most.

        For any law p' the total variation TV(p, p') is at most ``hidden_mass`` + TV of the two laws over
        cells: outcomes i of a cell P add half of sum |p_i - p'_i| <= (p(P) + p'(P)) / 2
        <= p(P) + |p(P) - p'(P)| / 2.
        """
        members = np.bincount(self.cell_of[self.cell_of >= 0], minlength=len(self))
        return float(self.probabilities[members > 1].sum())

    def tally(self, counts: Integers) -> Integers:
        """Draws in each cell, int [C], from counts int [V]; draws off the support are left out."""
        drawn = np.zeros(len(self), dtype=np.int64)
        inside = self.cell_of >= 0
        np.add.at(drawn, self.cell_of[inside], counts[inside])
        return drawn

    def largest_distance(self, law: Floats, slack: npt.ArrayLike) -> float:
        """Largest chi-square distance, over cells, of laws p' [V] with |log p'_i / p_i| <= ``slack`` [V]."""
        error = np.zeros(len(self))
        inside = self.cell_of >= 0
        np.add.at(error, self.cell_of[inside], (law * np.expm1(slack))[inside])
        return float((error**2 / self.probabilities).sum())

    def off_support(self, counts: Integers) -> tuple[int, ...]:
        """Outcomes of probability zero that were drawn; any one of them proves the law wrong."""
        return tuple(int(i) for i in np.flatnonzero((self.cell_of < 0) & (counts > 0)))


def support_cells(probabilities: npt.ArrayLike) -> Cells:
    """Return one cell for every outcome of positive probability; ``probabilities`` [V]."""
    law = require_law(probabilities)
    inside = law > 0
    cell_of = np.where(inside, np.cumsum(inside) - 1, -1)
    return Cells(cell_of.astype(np.int64), law[inside])


def pooled_cells(probabilities: npt.ArrayLike, draws: int, min_expected: float = MIN_EXPECTED) -> Cells:
    """Return cells of at least ``min_expected`` expected draws each, or a single cell if draws are too few.

    The rarest outcomes are joined first, cell by cell, until each is large enough; what is left over joins
    the last cell. Pooling looks at the law and the number of draws only, never at the counts.

    >>> pooled_cells([0.9, 0.06, 0.03, 0.01], 1000).cell_of.tolist()
    [1, 0, 0, 0]
    """
    law = require_law(probabilities)
    return joined_cells(law, require_positive(min_expected, "min_expected") / require_draws(draws))


def joined_cells(masses: Numbers, needed: float) -> Cells:
    """Return cells of outcomes of ``masses`` [V], joined rarest first until each has what is ``needed``."""
    order = np.argsort(masses, kind="stable")
    order = order[masses[order] > 0]
    cell_of, joined = np.full(masses.size, -1, dtype=np.int64), [0.0]
    cells = []
    for mass in masses[order].tolist():
        if joined[-1] >= needed:
            joined.append(0.0)
        joined[-1] += mass
        cells.append(len(joined) - 1)
    cell_of[order] = cells
    if len(joined) > 1 and joined[-1] < needed:
        left_over = joined.pop()
        joined[-1] += left_over
        cell_of[cell_of == len(joined)] = len(joined) - 1
    mass = np.asarray(joined)
    return Cells(cell_of, mass / (mass.sum() or 1.0))
