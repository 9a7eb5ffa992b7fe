"""The exact dual simplex method: each answer is proven by its own multipliers."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spec_oracle.optimum.cutting_planes import CoveringProgram
from tests.strategies import examples


def fractions(values):
    return np.array([Fraction(value) for value in values], dtype=object)


small = st.integers(0, 3)
programs = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(small, min_size=n, max_size=n),
        st.lists(
            st.tuples(st.lists(st.integers(-2, 3), min_size=n, max_size=n), st.integers(-3, 3)), max_size=6
        ),
    )
)


@examples(300)
@given(programs, st.booleans())
def test_primal_and_dual_solutions_prove_each_other(program, one_by_one):
    cost, rows = program
    # x = (1, ..., 1) is made to satisfy every row.
    rows = [(a, min(b, sum(a))) for a, b in rows]
    solver = CoveringProgram(fractions(cost))
    for a, b in rows:
        solver.add(fractions(a), Fraction(b))
        if one_by_one:
            solver.solve()
    solver.solve()
    x, y = solver.solution, solver.multipliers
    assert (x >= 0).all()
    assert (y >= 0).all()
    assert len(y) == len(rows)
    A = np.array([fractions(a) for a, _ in rows], dtype=object).reshape(len(rows), len(cost))
    b = fractions(b for _, b in rows)
    assert (A @ x >= b).all()
    assert (y @ A <= fractions(cost)).all()
    assert fractions(cost) @ x == y @ b


def test_of_many_solutions_the_one_next_to_the_guess_is_found_exactly():
    # x + y >= 2 and x + y + z >= 2: the solutions fill the segment from (2, 0, 0) to (0, 2, 0).
    solver = CoveringProgram(fractions([1, 1, 1]))
    solver.add(fractions([1, 1, 0]), Fraction(2))
    solver.add(fractions([1, 1, 1]), Fraction(2))
    solver.solve()
    x = solver.solution_near(np.array([0.5 + 1e-14, 1.5, 1e-16]))
    assert x is not None
    assert x[0] + x[1] == 2
    assert x[2] == 0
    assert abs(x[0] - Fraction(1, 2)) < 1e-12
    assert solver.multipliers @ fractions([2, 2]) == 2


def test_no_guess_leads_away_from_the_only_solution():
    solver = CoveringProgram(fractions([1, 2]))
    solver.add(fractions([1, 1]), Fraction(2))
    solver.add(fractions([-1, 0]), Fraction(-1))
    solver.solve()
    assert (solver.solution == 1).all()
    assert (solver.solution_near(np.array([0.0, 2.0])) == 1).all()


def test_without_rows_nothing_is_bought():
    solver = CoveringProgram(fractions([1, 2]))
    solver.solve()
    assert (solver.solution == 0).all()
    assert solver.num_rows == 0
