"""The statistics that the audits rest on keep their promises when nothing is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import verifiers
from lab.specimens.registry import specimens
from lab.specimens.toy_engine import ToyEngine
from lab.studies.null_audits import audited
from lab.studies.sampled_null_audits import STYLES
from spec_oracle.audit import AuditOptions, SubjectVerdict, dependence, draws
from spec_oracle.audit import instances as panels
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.dependence import CallSizes
from spec_oracle.audit.draws import extended_cells, sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.sampler import (
    bad_input,
    batch,
    calls,
    inputs_kept,
    length,
    sampled_shapes,
    scale,
    streams,
)
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.saved_inputs import as_drafts
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import DEFAULT_ALPHA, EProcess, goodness_of_fit_by_e_process, goodness_of_fit_by_g
from spec_oracle.toy import Instance
from tests.efforts import set_effort
from tests.strategies import at_night
from tests.subjects import of_engine
from verifiers import numpy_decisions

INSTANCE = Instance.random(3, 1, seed=5, concentration=3.0)
LAW = INSTANCE.target.joint(2)
NEVER = 1e-6
"""Chance that a test of this module fails although nothing is wrong."""


def texts(name, draws, seed):
    """Cells of the extended texts of one call of a built-in verifier, int [draws]."""
    rng = np.random.default_rng([seed, 1])
    drafts = sampled_drafts(INSTANCE, draws, rng)
    verdict = verifiers.get(name).verify(as_drafts(drafts), numpy_decisions(np.random.default_rng([seed, 2])))
    return extended_cells(INSTANCE, verdict.emitted, verdict.num_accepted + 1, rng)


def counts_of_runs(name, runs, draws, seed):
    """Counts of ``runs`` independent runs, int [runs, cells]."""
    cells = texts(name, runs * draws, seed).reshape(runs, draws)
    return np.stack([np.bincount(run, minlength=len(LAW)) for run in cells])


def p_values(counts):
    return np.array([goodness_of_fit_by_g(run, LAW, alpha=0.01).p_value for run in counts])


def uniformity(counts):
    """Kolmogorov-Smirnov p-value of the G test's p-values over runs, counts int [runs, cells].

    They are discrete: a p-value may take as many values as there are tables of counts. With 2,000 draws in
    nine cells those are more than 10^20, and the largest step of their law is far below what KS sees.
    """
    return stats.kstest(p_values(counts), "uniform").pvalue


RUNS = 200


def test_p_values_of_a_correct_verifier_are_uniform():
    assert uniformity(counts_of_runs("token", RUNS, 2000, seed=11)) > NEVER


def test_p_values_of_a_faulty_verifier_are_not():
    """The test above can fail: a law that is off by a total variation of 0.02 has p-values that are not."""
    off = LAW + 0.02 * (np.eye(len(LAW))[LAW.argmin()] - np.eye(len(LAW))[LAW.argmax()])
    assert uniformity(np.random.default_rng(13).multinomial(2000, off, size=RUNS)) < NEVER


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["token", "block", "sample_and_match"])
def test_p_values_of_correct_verifiers_are_uniform_over_thousands_of_runs(name):
    assert uniformity(counts_of_runs(name, 4000, 2000, seed=11)) > NEVER


def crossings(looks, alpha):
    """Runs, counts int [runs, looks, cells], in which the e-process ever reaches 1 / alpha."""
    crossed = 0
    for run in looks:
        process = EProcess.against([LAW])
        for counts in run:
            process = process.observe(counts)
        crossed += not goodness_of_fit_by_e_process(process, alpha=alpha).passed
    return crossed


@pytest.mark.parametrize("name", ["token", *at_night("block")])
def test_the_e_process_rarely_crosses(name):
    alpha, runs = 0.05, 200
    looks = counts_of_runs(name, runs * 10, 100, seed=12).reshape(runs, 10, -1)
    assert crossings(looks, alpha) <= stats.binom.isf(NEVER, runs, alpha)


def test_the_e_process_crosses_where_it_should():
    alpha, runs = 0.05, 20
    off = 0.5 * LAW + 0.5 / len(LAW)
    looks = np.random.default_rng(14).multinomial(100, off, size=(runs, 10))
    assert crossings(looks, alpha) > stats.binom.isf(NEVER, runs, alpha)


PANEL = panel(3, 1, 1, 0)


def token_rule(tokens, draft, target, generator):
    """The token rule, one array operation a step: null audits call it a million times."""
    request, length = np.arange(len(tokens)), tokens.shape[1]
    p, q = (np.take_along_axis(rows[:, :length], tokens[:, :, None], 2)[:, :, 0] for rows in (target, draft))
    tau = np.cumprod(generator.random(tokens.shape) * q < p, axis=1).sum(axis=1)
    left = target.copy()
    left[:, :length] = np.maximum(left[:, :length] - draft, 0)
    left = left[request, tau]
    extra = (left / generator.exponential(size=left.shape)).argmax(axis=1)
    drafts = np.concatenate([tokens, tokens[:, :1]], axis=1)
    position = np.arange(length + 1)
    emitted = np.where(position < tau[:, None], drafts, -1)
    return np.where(position == tau[:, None], extra[:, None], emitted), tau


TOKEN = SamplerSubject("token", SamplerCode(token_rule), Facts(rule_at=lambda _: "token"), traceable=False)


@pytest.fixture
def small_checks(monkeypatch):
    """Checks with few draws: rates must hold at any number, and ten thousand audits take long enough."""
    efforts = {
        "SAMPLER_BATCH": 250,
        "SAMPLER_FOLLOW_UPS": 8,
        "SAMPLER_TV": 0.2,
        "SHAPES_MOST_REQUESTS": 12_000,
        "LENGTH_REQUESTS": 250,
        "LENGTH_ROUNDS": 2,
        "STREAMS_ROUNDS": 2,
        "STREAMS_SEEDS": 10,
        "BATCH_REPEATS": 120,
        "SCALE_ROUNDS": 2,
        "SCALE_TYPE_ROUNDS": 1,
        "SCALE_TYPE_REQUESTS": 200,
        "ENGINE_TV_WANTED": 0.3,
        "LARGE_TV": 0.3,
    }
    set_effort(monkeypatch, **efforts)
    monkeypatch.setattr(sampled_shapes, "FULL", (Shape(16_385, 6, dtype="float32"),))
    monkeypatch.setattr(length, "INSTANCES", ("flat",))
    for module in (calls, dependence):
        monkeypatch.setattr(module, "CHAINS", (CallSizes((2,), 19), CallSizes((1, 2), 23)))
    monkeypatch.setattr(dependence, "BATCHES", (CallSizes((2,), 23), CallSizes((12,), 17)))
    monkeypatch.setattr(scale, "SWEPT_VOCABULARY", 65)
    monkeypatch.setattr(scale, "VOCABULARY", 2_001)
    for module in (panels, draws, length, calls, streams, batch, scale, bad_input, inputs_kept):
        monkeypatch.setattr(module, "panel", lambda *_: PANEL)


OF_LAWS = frozenset({"joint", "shapes", "length", "calls", "draft-law", "streams", "batch", "scale"})


def null_audit(seed, alpha, subject=TOKEN, checks=OF_LAWS):
    """Every check that has an error rate, or some, each at its share of alpha; return those that failed."""
    found = Context(rate=alpha, seed=seed, budget=1e6)
    engine = of_engine(ToyEngine(INSTANCE.floats))
    results = [
        result_of(name, engine if name == "draft-law" else subject, found)
        for name in CHECKS
        if name in checks
    ]
    assert {result.status for result in results} <= {"passed", "failed"}
    return [result.name for result in results if result.status == "failed"]


def most_alarms(audits, alpha):
    return stats.binom.isf(NEVER, audits, alpha)


@pytest.mark.nightly
@pytest.mark.usefixtures("small_checks")
def test_ten_thousand_null_audits_raise_few_alarms():
    audits, alpha = 10_000, 1e-2
    assert sum(bool(null_audit(seed, alpha)) for seed in range(audits)) <= most_alarms(audits, alpha)


@pytest.mark.usefixtures("small_checks")
@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("always-accept", {"joint", "calls", "streams", "scale"}),
        ("one-uniform-vector-for-the-batch", {"calls", "batch"}),
    ],
)
def test_the_same_audit_raises_alarms_on_faulty_code(name, checks):
    """Polarity: what a null audit passes is failed where drafts are not tested, or requests are not apart."""
    faulty = replace(TOKEN, code=SamplerCode(specimens()[name].function))
    assert checks == set(null_audit(0, 1e-2, faulty, checks))


def test_a_planted_defect_turns_the_same_check_red():
    """Polarity: what stands on a correct engine fails on one whose drafts are accepted by their own noise."""
    planted = specimens()["draft-noise-accepts"].engine()
    right = specimens()["system"].engine()
    for engines, status in ((planted, "failed"), (right, "passed")):
        one = dict([next(iter(engines.items()))])
        assert result_of("joint", of_engines("engine", one), Context(seed=3)).status == status


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(5))
def test_right_samplers_of_five_styles_are_lossless(number):
    """`python -m lab.studies.null_audits` does a thousand of them."""
    assert audited(number, seed=4).verdict is SubjectVerdict.LOSSLESS


@pytest.mark.nightly
@pytest.mark.parametrize("style", STYLES)
def test_right_subjects_that_samples_decide_are_not_lossy(style):
    """`python -m lab.studies.sampled_null_audits` does a thousand of them."""
    assert STYLES[style](AuditOptions(seed=4, budget=0.5), DEFAULT_ALPHA).verdict is not SubjectVerdict.LOSSY
