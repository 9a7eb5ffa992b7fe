"""The best budgets that random drafts allow: an exact cutting-plane method.

Budgets can be served, by max-flow and min-cut, exactly if no set of nodes wants more than there is,

    e(U) = sum over U of the stop masses e <= H(U) = P(the draft tree has a node in U),                (Hall)

for every set U. With the drops d(v) = c(ceiling of v) - c(v) >= 0 as variables the program is

    minimise sum_v d(v) (target mass of v and of all below it in the order of ceilings)    subject to (Hall),

one variable a node and as many rows as there are sets; but only violated ones are ever added: solve exactly,
find sets that want too much (independent paths: by a sort; enumerated trees: by a maximum flow), and repeat.
Each round adds a new set, so the method ends, with a proof that all is served. The multipliers y of the rows
give the potentials mu(u) = sum of y over the sets with u in them, and mu proves optimality (`certificates`).

Floats only save rounds: HiGHS names the sets that limit its optimum, which alone fix the value, and of the
many budgets of that value the exact one next to the float one is nearly always within all other sets too.

Rows arrive one by one: the exact programs are solved by the dual simplex method in rationals.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers, Number, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import to_internal
from spec_oracle.exact.drafting import Drafting
from spec_oracle.optimum.drafts import DistinctTrees, IndependentPaths, PrefixTree, trees_of
from spec_oracle.optimum.float_programs import FloatOptimum, concave_optimum, flow_optimum
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of
from verifiers import Siblings

ROUNDING = 1e-9
"""What is smaller in a float solution is taken for 0."""

Drafted: TypeAlias = IndependentPaths | DistinctTrees
"""What a law of drafting allows: independent paths by their law alone, other laws tree by tree."""

MAX_CONTEXTS = 5_000
"""Contexts of up to L tokens that a program may have."""

AGREEMENT = 1e-10
"""How near budgets that can be served come to the bound, in tokens, unless less is asked for."""


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


def drafts_of(instance: Instance, drafting: Siblings | Drafting) -> Drafted:
    """Return what ``drafting`` allows on ``instance``; raises `InvalidInputError` for one too large."""
    if not isinstance(drafting, Drafting):
        require_instance_of(drafting, "drafting", Siblings)
    prefixes = PrefixTree(instance.vocab_size, instance.draft_length)
    if prefixes.starts[-1] > MAX_CONTEXTS:
        raise InvalidInputError(f"instance: {prefixes.starts[-1]} contexts, more than {MAX_CONTEXTS}")
    if drafting in {Siblings.INDEPENDENT, Siblings.PATHS}:
        return IndependentPaths(prefixes, prefixes.joint(instance.draft), instance.num_paths)
    return trees_of(instance, drafting)


def float_optimum(
    target: Numbers, ceiling: Integers, drafts: Drafted, gap: float = AGREEMENT
) -> FloatOptimum | None:
    """Return the optimum that HiGHS finds, None if it finds none.

    Arguments as in `best_budgets`, rationals or floats. Over independent paths the search ends
    where the optimum is known to ``gap`` tokens.
    """
    mass = target.astype(np.float64)
    if isinstance(drafts, IndependentPaths):
        return concave_optimum(mass, ceiling, drafts.floats, gap)
    return flow_optimum(mass, ceiling, drafts)


@dataclass(frozen=True)
class BestBudgets:
    """Optimal ``budgets`` [N], ``potentials`` [N] that prove it, and how the budgets are ``served``.

    ``served`` is the law [V^L] of the selected path, or the stop masses [n_t] of each enumerated tree.
    """

    budgets: Numbers
    potentials: Numbers
    served: Any


def best_budgets(target: Numbers, ceiling: Integers, drafts: Drafted) -> BestBudgets:
    """Maximise sum_v p(v) c(v) over 0 <= c(v) <= c(ceiling[v]), c(root) = 1, that ``drafts`` can serve.

    ``target`` [N] is p in exact rationals, of nodes numbered so that parents and ceilings, int [N], come
    first; the root is node 0 and its own parent and ceiling.
    """
    guess = float_optimum(target, ceiling, drafts)
    program = _BudgetProgram(target, ceiling, drafts, guess)
    program.add_sets(guess.sets if guess else drafts.prefixes.subtrees[1:])
    while True:
        budgets = program.solve()
        # What a node of negative stop mass lacks, all others want beyond all there is.
        lacking = np.asarray(drafts.prefixes.stop_masses(target * budgets) < 0, dtype=bool)
        violated = ~np.eye(len(target), dtype=bool)[lacking]
        if not lacking.any():
            violated, served = drafts.serve(target * budgets)
            if not len(violated):
                return BestBudgets(budgets, program.potentials(), served)
        program.add_sets(violated)


class _BudgetProgram:
    """The program in the drops d, with its rows named by their node sets."""

    def __init__(
        self, target: Numbers, ceiling: Integers, drafts: Drafted, guess: FloatOptimum | None
    ) -> None:
        self._target, self._ceiling, self._drafts = target, ceiling, drafts
        # A node that the target never reaches has no drop.
        self._active = 1 + np.flatnonzero(target[1:] > 0)
        self._guess = None if guess is None else (guess.budgets[ceiling] - guess.budgets)[self._active]
        self._program = CoveringProgram(self._beneath(target))
        self._sets = drafts.prefixes.subtrees[:0]

    def add_sets(self, sets: Booleans) -> None:
        """Demand e(U) <= H(U) of every U in ``sets``, bool [n, N].

        e(U) = sum_v s(v) p(v) c(v) with s(v) = [v in U] - [parent of v in U]; at d = 0 every c is 1.
        """
        self._sets = np.concatenate([self._sets, sets])
        for chosen in sets:
            above = chosen[self._drafts.prefixes.parent]
            above[0] = False
            signed = (chosen.astype(int) - above) * self._target
            self._program.add(self._beneath(signed), signed.sum() - self._drafts.mass_touching(chosen))

    def solve(self) -> Numbers:
        """Return the best budgets [N] under the rows so far; of several such those next to the guess."""
        self._program.solve()
        drops = None if self._guess is None else self._program.solution_near(self._guess)
        if drops is None:
            self._program.solve()
            drops = self._program.solution
        budgets = np.full_like(self._target, self._target[0])
        budgets[self._active] -= drops
        for node, above in enumerate(self._ceiling[1:], start=1):
            budgets[node] += budgets[above] - 1
        return budgets

    def _beneath(self, masses: Numbers) -> Numbers:
        """Return, for each drop, the sum of ``masses`` [N] over all nodes that it lowers."""
        totals = masses.copy()
        for node in range(len(totals) - 1, 0, -1):
            totals[self._ceiling[node]] += totals[node]
        return totals[self._active]

    def potentials(self) -> Numbers:
        """Return mu [N] from the multipliers of the rows."""
        return self._program.multipliers @ self._sets.astype(np.int64)
