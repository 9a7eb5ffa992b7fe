"""The statistics that the audits rest on keep their promises when nothing is wrong."""

import numpy as np
import pytest
from scipy import stats

import verifiers
from spec_oracle.audit.draws import extended_cells, sampled_drafts
from spec_oracle.audit.system_laws import joint_of_system
from spec_oracle.specimens.toy_system import toy_system
from spec_oracle.statistics import EProcess, ErrorBudget, goodness_of_fit_by_g
from spec_oracle.toy import Instance
from verifiers import numpy_decisions

INSTANCE = Instance.random(3, 1, seed=5, concentration=3.0)
LAW = INSTANCE.target.joint(2)


def texts(name, draws, seed):
    """Cells of the extended texts of one call of a built-in verifier, int [draws]."""
    rng = np.random.default_rng([seed, 1])
    drafts = sampled_drafts(INSTANCE, draws, rng)
    verdict = verifiers.get(name).verify(drafts, numpy_decisions(np.random.default_rng([seed, 2])))
    return extended_cells(INSTANCE, verdict.emitted, verdict.num_accepted + 1, rng)


def counts_of_runs(name, runs, draws, seed):
    """Counts of ``runs`` independent runs, int [runs, cells]."""
    cells = texts(name, runs * draws, seed).reshape(runs, draws)
    return np.stack([np.bincount(run, minlength=len(LAW)) for run in cells])


def uniformity(name, runs):
    """Kolmogorov-Smirnov p-value of the p-values of ``runs`` null runs."""
    counts = counts_of_runs(name, runs, 2000, seed=11)
    p_values = [goodness_of_fit_by_g(run, LAW, alpha=0.01).p_value for run in counts]
    return stats.kstest(p_values, "uniform").pvalue


def test_p_values_of_a_correct_verifier_are_uniform():
    assert uniformity("token", 200) > 1e-6


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["token", "block", "sample_and_match"])
def test_p_values_of_correct_verifiers_are_uniform_over_thousands_of_runs(name):
    assert uniformity(name, 4000) > 1e-6


@pytest.mark.parametrize("name", ["token", "block"])
def test_the_e_process_rarely_crosses(name):
    """In 200 null runs with ten looks each, no more crossings of 1/alpha than the upper 1e-6 quantile."""
    alpha, runs = 0.05, 200
    looks = counts_of_runs(name, runs * 10, 100, seed=12).reshape(runs, 10, -1)
    crossings = 0
    for run in looks:
        process = EProcess.against([LAW])
        for counts in run:
            process = process.observe(counts)
        crossings += process.p_value <= alpha
    assert crossings <= stats.binom.isf(1e-6, runs, alpha)


def null_alarms(audits, alpha):
    """Alarms of the `joint` check in null audits of the correct system, every one with its own seed."""
    rate = ErrorBudget(alpha).rate_of("joint")
    instances = {"only": INSTANCE.floats}
    return sum(
        joint_of_system(toy_system, instances, alpha=rate, seed=seed).status == "failed"
        for seed in range(audits)
    )


def test_null_audits_raise_few_alarms():
    assert null_alarms(10, alpha=1e-2) <= stats.binom.isf(1e-6, 10, 1e-2)


@pytest.mark.nightly
def test_ten_thousand_null_audits_raise_few_alarms():
    assert null_alarms(10_000, alpha=1e-2) <= stats.binom.isf(1e-6, 10_000, 1e-2)


def test_rates_do_not_depend_on_who_asks_in_which_order():
    budget, names = ErrorBudget(1e-6), [f"test-{i}" for i in range(20)]
    assert budget.rates_of_tests("joint", names) == budget.rates_of_tests("joint", names[::-1])


def test_a_planted_defect_turns_the_same_check_red():
    """Polarity: what stands on a correct system fails on one whose drafts are accepted by their own noise."""
    from spec_oracle.specimens.registry import specimens

    faulty = specimens()["draft-noise-accepts"].system
    assert joint_of_system(faulty, {"only": INSTANCE.floats}, alpha=1e-6, seed=3).status == "failed"
    assert joint_of_system(toy_system, {"only": INSTANCE.floats}, alpha=1e-6, seed=3).status == "passed"
