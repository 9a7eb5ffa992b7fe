"""Exact linear programs whose rows arrive one by one: the dual simplex method in rationals."""

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Number, Numbers
from spec_oracle.exact.arithmetic import to_internal

ROUNDING = 1e-9
"""What is smaller in a float solution is taken for 0."""


class CoveringProgram:
    """Minimise cost . x over x >= 0 subject to rows a . x >= b that are added as they are found violated.

    ``cost`` [n] is nonnegative, so x = 0 is optimal without rows and every later program starts from a dual
    feasible basis. Numbers are exact rationals in object arrays; the rows must have a common solution.

    The state is a dictionary (Chvátal, Linear Programming, chapter 2): each basic variable, and in the last
    row the objective, as an affine function of the nonbasic ones, the constant in the last column. Variables
    0..n-1 are x, n.. the slacks a . x - b of the rows in order of arrival. Bland's rule (the smallest index,
    entering and leaving) excludes cycles.
    """

    def __init__(self, cost: Numbers) -> None:
        self._size = len(cost)
        self._zero = cost.sum() * 0
        self._dictionary = np.append(cost, self._zero)[None, :]
        self._rows: list[tuple[Numbers, Number]] = []
        self._basic: list[int] = []
        self._nonbasic = list(range(self._size))

    @property
    def num_rows(self) -> int:
        """Number of rows added so far."""
        return len(self._rows)

    @property
    def solution(self) -> Numbers:
        """The current x, [n]; optimal after `solve`."""
        return self._values(self._basic, self._dictionary[:-1, -1], 0, self._size)

    @property
    def multipliers(self) -> Numbers:
        """The dual multiplier of each row, nonnegative: the objective's coefficient of its slack."""
        return self._values(self._nonbasic, self._dictionary[-1, :-1], self._size, self.num_rows)

    def _values(self, names: list[int], values: Numbers, first: int, count: int) -> Numbers:
        """Return variables first..first+count-1, given the ``values`` of ``names``; the others are 0."""
        spread = np.full(count, self._zero)
        for name, value in zip(names, values, strict=True):
            if first <= name < first + count:
                spread[name - first] = value
        return spread

    def add(self, coefficients: Numbers, bound: Number) -> None:
        """Demand ``coefficients`` . x >= ``bound`` too; ``coefficients`` [n]."""
        row = np.full(self._size + 1, self._zero)
        row[-1] = -bound
        for position, name in enumerate(self._nonbasic):
            if name < self._size:
                row[position] += coefficients[name]
        for position, name in enumerate(self._basic):
            if name < self._size and coefficients[name]:
                row += coefficients[name] * self._dictionary[position]
        self._basic.append(self._size + self.num_rows)
        self._rows.append((coefficients, bound))
        self._dictionary = np.insert(self._dictionary, -1, row, axis=0)

    def solve(self) -> None:
        """Pivot until no variable is negative: x is then optimal."""
        while True:
            violated = np.flatnonzero(self._dictionary[:-1, -1] < 0).tolist()
            if not violated:
                return
            leaving = min(violated, key=lambda row: self._basic[row])
            row, objective = self._dictionary[leaving], self._dictionary[-1]
            entering = min(
                np.flatnonzero(row[:-1] > 0).tolist(),
                key=lambda column: (objective[column] / row[column], self._nonbasic[column]),
            )
            self._pivot(leaving, entering)

    def solution_near(self, guess: Floats) -> Numbers | None:
        """Return an optimal x next to ``guess`` [n], an optimal x in floats; None where none is found.

        Call after `solve`. Nonbasic variables that cost nothing may take any value without loss: they take
        the guess's. Pivots on columns that cost nothing first bring the variables that are 0 there among the
        nonbasic ones, where they are 0 exactly. Such pivots keep the multipliers, but may leave the vertex of
        the basis infeasible, which the next `solve` puts right.
        """
        slacks = [row.astype(np.float64) @ guess - float(bound) for row, bound in self._rows]
        values = np.append(guess, slacks)
        values[values < ROUNDING] = 0
        self._make_nonbasic(values == 0)
        free = self._dictionary[-1, :-1] == 0
        chosen = to_internal(np.where(free, values[self._nonbasic], 0.0))
        basics: Numbers = self._dictionary[:-1, :-1] @ chosen + self._dictionary[:-1, -1]
        if (basics < 0).any():
            return None
        return self._values([*self._basic, *self._nonbasic], np.append(basics, chosen), 0, self._size)

    def _make_nonbasic(self, zero: Booleans) -> None:
        """Exchange basic variables marked ``zero`` for nonbasic ones that are not and that cost nothing."""
        for row, name in enumerate(self._basic):
            if zero[name]:
                entries = self._dictionary[row, :-1]
                movable = (self._dictionary[-1, :-1] == 0) & (entries != 0) & ~zero[self._nonbasic]
                if movable.any():
                    self._pivot(row, max(np.flatnonzero(movable).tolist(), key=abs(entries).__getitem__))

    def _pivot(self, leaving: int, entering: int) -> None:
        """Solve row ``leaving`` for the nonbasic variable ``entering`` and substitute it everywhere."""
        column = self._dictionary[:, entering].copy()
        solved = -self._dictionary[leaving] / column[leaving]
        solved[entering] = 1 / column[leaving]
        self._dictionary[:, entering] = self._zero
        touched = np.flatnonzero(column)
        self._dictionary[touched] += column[touched, None] * solved
        self._dictionary[leaving] = solved
        self._basic[leaving], self._nonbasic[entering] = self._nonbasic[entering], self._basic[leaving]
