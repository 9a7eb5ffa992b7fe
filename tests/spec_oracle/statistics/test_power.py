"""Power: the promises agree with each other, and with simulation."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp, xlogy
from scipy.stats import binom, chi2, ncx2

from spec_oracle import statistics
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import (
    draws_needed_by_g,
    draws_needed_by_joint_e_process,
    log_e_value,
    smallest_detectable_tv_by_g,
    smallest_detectable_tv_by_joint_e_process,
)
from spec_oracle.statistics.cells import support_cells
from spec_oracle.statistics.power import LARGEST_NONCENTRALITY
from tests.strategies import at_night

TESTS = ["g", "e_process"]
UNIFORM = np.full(16, 1 / 16)
SKEWED = np.array([0.8, 0.1, 0.05, 0.03, 0.02])


def power_of(test):
    """Return a test's smallest detectable total variation and draws needed, as functions of one law."""
    if test == "g":
        return smallest_detectable_tv_by_g, draws_needed_by_g
    return (
        lambda draws, law, **rates: smallest_detectable_tv_by_joint_e_process([draws], [law], **rates),
        lambda tv, law, **rates: draws_needed_by_joint_e_process(tv, [law], **rates),
    )


def spread(law, grows, tv):
    """Return the law whose mass on ``grows`` is larger by ``tv``, in proportion; smaller elsewhere."""
    mass = law[grows].sum()
    return law * np.where(grows, 1 + tv / mass, 1 - tv / (1 - mass))


def most_misses(runs, miss):
    """Largest number of misses that a miss rate of ``miss`` exceeds with probability 1e-9 at most."""
    return binom.isf(1e-9, runs, miss)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("miss", [0.5, 1e-3, 1e-9])
def test_draws_needed_and_smallest_detectable_tv_are_each_others_inverse(test, alpha, miss):
    smallest, needed = power_of(test)
    for tv in (0.3, 0.05, 0.002):
        draws = needed(tv, UNIFORM, alpha=alpha, miss=miss)
        assert smallest(draws, UNIFORM, alpha=alpha, miss=miss) <= tv
        assert smallest(draws - 1, UNIFORM, alpha=alpha, miss=miss) > tv
        if draws > 800:  # where pooling ends, and with it the jumps
            assert smallest(draws, UNIFORM, alpha=alpha, miss=miss) > tv / 1.1


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("law", [UNIFORM, SKEWED])
def test_better_rates_and_smaller_defects_cost_more_draws(test, law):
    _, needed = power_of(test)
    draws = [needed(tv, law, alpha=1e-6) for tv in (0.2, 0.1, 0.05, 0.02)]
    assert draws == sorted(set(draws))
    draws = [needed(0.05, law, alpha=alpha) for alpha in (1e-2, 1e-4, 1e-8)]
    assert draws == sorted(set(draws))
    draws = [needed(0.05, law, alpha=1e-6, miss=miss) for miss in (0.5, 0.1, 1e-3)]
    assert draws == sorted(set(draws))


@pytest.mark.parametrize("test", TESTS)
def test_too_few_draws_promise_nothing(test):
    smallest, _ = power_of(test)
    assert smallest(3, UNIFORM, alpha=1e-9) == math.inf


@pytest.mark.parametrize("test", TESTS)
def test_a_law_with_one_outcome_can_only_leak(test):
    _, needed = power_of(test)
    draws = needed(0.01, [0.0, 1.0], alpha=1e-9, miss=1e-3)
    assert 0.99**draws <= 1e-3 < 0.99 ** (draws - 1)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("tv", [0.0, -0.1, 1.1, math.nan, 1e-12])
def test_impossible_total_variations_are_refused(test, tv):
    with pytest.raises(InvalidInputError, match="tv"):
        power_of(test)[1](tv, UNIFORM, alpha=1e-9)


def test_the_spread_defect_is_the_least_favourable():
    # Deterministic: the seed only picks alternatives.
    rng = np.random.default_rng(1)
    for law, distance in ((UNIFORM, 4.0), (SKEWED, 1 / (0.8 * 0.2))):
        for other in rng.dirichlet(law * 30, size=2000):
            tv = np.abs(other - law).sum() / 2
            assert ((other - law) ** 2 / law).sum() >= distance * tv**2 * (1 - 1e-9)
        grows = np.cumsum(law) > (0.5 if law is UNIFORM else 0.8)
        alternative = spread(law, grows, 0.01)
        assert ((alternative - law) ** 2 / law).sum() == pytest.approx(distance * 0.01**2)


@pytest.mark.parametrize(("tv", "alpha"), [(0.01, 1e-9), (0.05, 1e-6)])
def test_g_finds_the_spread_defect_as_often_as_promised(tv, alpha):
    """False alarm: 1e-9."""
    runs, miss, law = 20_000, 1e-2, spread(UNIFORM, np.arange(16) % 2 == 0, tv)
    draws = draws_needed_by_g(tv, UNIFORM, alpha=alpha, miss=miss)
    counts = np.random.default_rng(2).multinomial(draws, law, size=runs)
    correction = 1 + (16 * 16 - 1) / (6 * draws * 15)
    misses = (2 * xlogy(counts, counts * 16 / draws).sum(axis=1) / correction < chi2.isf(alpha, 15)).sum()
    assert misses <= most_misses(runs, miss)
    assert misses >= binom.ppf(1e-9, runs, miss / 2)  # and the promise is not idle


def test_pooled_outcomes_are_added_to_what_g_may_miss():
    law = np.append(np.full(4, 0.2475), np.full(100, 1e-4))
    assert smallest_detectable_tv_by_g(10_000, law, alpha=1e-6) > 0.01
    assert smallest_detectable_tv_by_g(10**6, law, alpha=1e-6) < 0.01


@pytest.mark.parametrize(
    ("law", "grows"),
    [
        (UNIFORM, np.arange(16) % 2 == 0),
        (SKEWED, np.arange(5) > 0),
        (1 / np.arange(1, 101) ** 2 / (1 / np.arange(1, 101) ** 2).sum(), np.arange(100) > 0),
    ],
    ids=["uniform", "skewed", "many rare outcomes"],
)
def test_the_e_process_finds_the_spread_defect_as_often_as_promised(law, grows):
    """One look at the promised number of draws; earlier looks can only help. False alarm: 1e-9."""
    runs, miss, alpha, tv = 2_000, 0.05, 1e-9, 0.05
    draws = draws_needed_by_joint_e_process(tv, [law], alpha=alpha, miss=miss)
    counts = np.random.default_rng(3).multinomial(draws, spread(law, grows, tv), size=runs)
    assert (log_e_value(counts, law) < -np.log(alpha)).sum() <= most_misses(runs, miss)


@pytest.mark.parametrize("runs", [60, *at_night(300)])
def test_joint_evidence_needs_few_draws_from_each_of_many_samples(runs):
    """False alarm: 1e-9."""
    miss, alpha, tv = 0.05, 1e-9, 0.05
    laws = list(np.random.default_rng(4).dirichlet(np.full(8, 2.0), size=20))
    draws = draws_needed_by_joint_e_process(tv, laws, alpha=alpha, miss=miss)
    assert draws < draws_needed_by_joint_e_process(tv, laws[:1], alpha=alpha, miss=miss) / 3
    assert smallest_detectable_tv_by_joint_e_process([draws] * 20, laws, alpha=alpha, miss=miss) <= tv
    rng = np.random.default_rng(5)
    misses = 0
    for _ in range(runs):
        process = statistics.EProcess.against(laws)
        for sample, law in enumerate(laws):
            grows = np.argsort(np.argsort(law)) % 2 == 0
            process = process.observe(rng.multinomial(draws, spread(law, grows, tv)), sample)
        misses += process.log_e < -np.log(alpha)
    assert misses <= most_misses(runs, miss)


def test_draws_needed_for_one_percent_at_1e9_among_sixteen():
    """The figures the project promises. False alarm: under 1e-9 (the mean is 30 standard errors away)."""
    assert draws_needed_by_g(0.01, UNIFORM, alpha=1e-9, miss=1e-3) <= 300_000
    runs, step = 50, 5_000
    rng = np.random.default_rng(6)
    increments = rng.multinomial(step, spread(UNIFORM, np.arange(16) % 2 == 0, 0.01), size=(100, runs))
    counts = increments.cumsum(axis=0)
    alarmed = log_e_value(counts, UNIFORM) >= -np.log(1e-9)
    assert alarmed.any(axis=0).all()
    assert ((alarmed.argmax(axis=0) + 1) * step).mean() <= 470_000


@pytest.mark.parametrize("slack", [0.003, 0.3])
def test_no_number_of_draws_finds_mass_that_the_law_leaves_open(slack):
    """Where scipy's law gives up, at about 10^8 / slack^2 draws, none is said to be found."""
    law = np.full(20, 0.05)
    at = int(LARGEST_NONCENTRALITY / support_cells(law).largest_distance(law, slack))
    before, beyond = (
        smallest_detectable_tv_by_g(draws, law, alpha=1e-7, slack=slack) for draws in (at - 1, at + 1)
    )
    assert slack / 4 < before < slack
    assert beyond == math.inf
    with pytest.raises(InvalidInputError, match="too small to be detected"):
        draws_needed_by_g(before / 2, law, alpha=1e-7, slack=slack)


@pytest.mark.parametrize(("alpha", "miss"), [(1e-6, 1e-3), (1e-9, 0.05), (0.05, 1e-6)])
@pytest.mark.parametrize("draws", [5_000, 10_000_000])
@pytest.mark.parametrize("law", [SKEWED, UNIFORM])
def test_the_detectable_tv_is_the_one_that_root_searches_find(law, draws, alpha, miss):
    """As the formulas say it: the evidence reaches 1 / alpha, then a chi-square variable stays below."""
    cells = len(law)
    a = statistics.e_process.concentrations(cells)

    def shortfall(statistic):
        logs = statistic / 2 * draws / (draws + a) - (cells - 1) / 2 * np.log1p(draws / a)
        return logsumexp(logs) - math.log(len(a)) + math.log(alpha)

    reached = brentq(shortfall, 0.0, 1e6, xtol=1e-12, rtol=1e-14)
    for threshold, found in (
        (reached, smallest_detectable_tv_by_joint_e_process([draws], [law], alpha=alpha, miss=miss)),
        (chi2.isf(alpha, cells - 1), smallest_detectable_tv_by_g(draws, law, alpha=alpha, miss=miss)),
    ):
        noncentrality = brentq(lambda x, t=threshold: ncx2.cdf(t, cells - 1, x) - miss, 0.0, 1e4, rtol=1e-14)
        assert found == pytest.approx(math.sqrt(noncentrality / (4 * draws)), rel=1e-8)
