"""K-SEQ's rho: valid in what is really computed, and the smallest such, also where target and draft agree."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import at_night, by_day
from verifiers.arrays import working_rows
from verifiers.rules.k_seq import smallest_rho

DISTANCES = by_day(
    [0.0, 1e-16, 1e-15, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 0.3], [0.0, 1e-16, 1e-14, 1e-8, 0.3]
)


def exact_rows(p, q):
    """Return float rows as rationals of mass one."""
    rows = ([Fraction(float(mass)) for mass in row] for row in (p, q))
    return tuple([mass / sum(row) for mass in row] for row in rows)


def uncovered_and_refused(p, q, rho, n):
    """Return sum (p - rho q)+ and the chance (1 - beta)^n that all n drafts are refused."""
    beta = sum(min(a / rho, b) for a, b in zip(p, q, strict=True))
    return sum(max(a - rho * b, 0) for a, b in zip(p, q, strict=True)), (1 - beta) ** n


def reference_rho(p, q, n):
    """Return the smallest valid rho, at most 2^-70 above it, by bisection in rationals."""

    def valid(rho):
        uncovered, refused = uncovered_and_refused(p, q, rho, n)
        return uncovered <= refused

    low, high = Fraction(1), Fraction(n)
    if valid(low):
        return low
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if valid(middle) else (middle, high)
    return high


def near_rows(distance, vocab, seed):
    """Return rows p and q that differ by about ``distance``."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(vocab))
    q = p + distance * rng.standard_normal(vocab) * p.min()
    return p, q / q.sum()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("n", by_day([2, 3, 4, 8], [2, 8]))
@pytest.mark.parametrize("seeds", [2, *at_night(10)])
def test_rho_is_the_smallest_valid_one_near_equal_rows(distance, n, seeds):
    for vocab in (2, 3, 6):
        for seed in range(seeds):
            p, q = near_rows(distance, vocab, seed)
            expected = reference_rho(*exact_rows(p, q), n)
            rho = smallest_rho(p[None], q[None], np.array([n]))[0]
            assert rho == pytest.approx(float(expected), rel=0, abs=1e-14)
            refused = uncovered_and_refused(*exact_rows(p, q), Fraction(float(rho)), n)[1]
            least = uncovered_and_refused(*exact_rows(p, q), expected, n)[1]
            assert float(refused - least) <= 1e-13


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("n", by_day([2, 3, 5, 8], [3, 8]))
def test_rho_is_valid_beyond_doubt_in_rationals(distance, n):
    p, q = exact_rows(*near_rows(distance, 4, seed=n))
    rows = (np.array([row], dtype=object) for row in (p, q))
    rho = smallest_rho(*rows, np.array([n]))[0]
    uncovered, refused = uncovered_and_refused(p, q, rho, n)
    assert uncovered <= refused
    assert 0 <= float(rho - reference_rho(p, q, n)) <= 1e-14


@pytest.mark.parametrize("n", by_day(range(2, 9), [2, 5, 8]))
@pytest.mark.parametrize("vocab", by_day([1, 2, 3, 50, 1000], [1, 3, 1000]))
def test_equal_rows_are_always_accepted(n, vocab):
    rows = np.random.default_rng([n, vocab]).dirichlet(np.ones(vocab), size=20)
    counts = np.full(20, n)
    for dtype in (np.float64, np.float32):
        p = working_rows(rows.astype(dtype))
        assert (smallest_rho(p, p, counts) == 1).all()
    p = working_rows(torch.from_numpy(rows).to(torch.bfloat16))
    assert (smallest_rho(p, p, torch.from_numpy(counts)) == 1).all()


ARITHMETICS = [
    {"exact": True},
    {},
    {"dtype": "float32"},
    {"array": "torch"},
    {"array": "torch", "dtype": "float32"},
    {"array": "torch", "dtype": "bfloat16"},
]


@pytest.mark.parametrize("options", ARITHMETICS, ids=str)
@pytest.mark.parametrize("num_paths", [2, 3, 4])
def test_a_draft_equal_to_the_target_is_accepted_in_every_arithmetic(num_paths, options):
    instance = Instance.random(3, 1, num_paths=num_paths, seed=num_paths, kind="equal")
    law = emission_law(verifiers.get("k_seq"), instance, **options, merged=False)
    assert law.accepted_length_pmf[1] == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("num_paths", by_day([2, 3, 5], [2, 5]))
@pytest.mark.parametrize("seeds", [2, *at_night(5)])
def test_nothing_leaks_near_equal_rows(distance, num_paths, seeds):
    for seed in range(seeds):
        p, q = near_rows(distance, 3, seed)
        instance = Instance.context_free(list(p), list(q), draft_length=1, num_paths=num_paths)
        assert emission_law(verifiers.get("k_seq"), instance, merged=False).total_variation <= 1e-15
        assert (
            emission_law(verifiers.get("k_seq"), instance, dtype="float32", merged=False).total_variation
            <= 1e-7
        )


@pytest.mark.parametrize("n", [2, 3, 8])
def test_rho_grows_to_the_number_of_drafts_as_supports_part(n):
    for overlap, expected in ((1e-9, n), (0.0, 1)):  # nothing in common: nothing to be shared out
        p, q = np.array([[1.0, overlap]]), np.array([[overlap, 1.0]])
        assert smallest_rho(p, q, np.array([n]))[0] == pytest.approx(expected, rel=1e-7)
