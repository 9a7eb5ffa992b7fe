"""Audits end to end: right code passes, wrong code gets a counterexample, weak evidence is no pass."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.instances import panel
from spec_oracle.audit.reports import AuditReport, Evidence, SubjectReport
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.toy import Instance
from tests.strategies import by_day
from tests.subjects import only
from verifiers import ROOT, Verdict

QUICK = AuditOptions(draft_length=2, checks=("joint", "batch", "inputs-kept"))
REPORTED = ("chain-always-accept", "chain-ratio-to-largest", "chain-first-draft-unverified")
"""Of public reports; the others are of ours, and enumerated by day in tests of the kill matrix."""
CHAIN = {name: specimen for name, specimen in specimens().items() if name.startswith("chain-")}
NEIGHBOURS, ZEROED = (CHAIN[f"chain-{name}"].rule for name in ("rows-of-the-neighbour", "zeroed-target-rows"))


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_a_right_verifier_is_proved_lossless(array):
    report = audit("block", options=AuditOptions(draft_length=2, array=array, checks=("joint",), budget=20.0))
    found = only(report)
    assert found.verdict is SubjectVerdict.LOSSLESS
    assert found.evidence is Evidence.EXACT
    assert found.total_variation < 1e-12
    assert found.headroom == pytest.approx(0, abs=1e-12)
    assert report.exit_code == 0


def test_in_rationals_the_total_variation_is_zero():
    found = only(audit("token", options=replace(QUICK, vocab_size=2, exact=True, checks=())))
    assert found.total_variation == 0
    assert found.smallest_detectable_tv == 0


@pytest.mark.parametrize(
    "name", by_day([name for name, s in CHAIN.items() if s.detected_by == ("joint",)], REPORTED)
)
def test_faulty_chain_verifiers_are_lossy_with_a_counterexample(name, tmp_path):
    specimen = CHAIN[name].rule
    # To look for a smaller instance of this one takes as long as for all others together.
    options = AuditOptions(counterexamples=tmp_path, checks=(), shrink=name != "chain-residual-argmax")
    found = only(audit(specimen, options=options))
    assert found.verdict is SubjectVerdict.LOSSY
    shown = found.counterexample
    assert isinstance(shown.gap.expected, Fraction)
    assert shown.gap.expected != shown.gap.actual
    again = Instance.load(shown.file)
    law = emission_law(specimen, again, exact=True)
    assert law.total_variation == shown.total_variation > 0
    assert law.extended()[shown.gap.sequence] == shown.gap.actual


def test_counterexamples_are_small():
    shown = only(audit(CHAIN["chain-always-accept"].rule, options=AuditOptions(checks=()))).counterexample
    assert (shown.instance.vocab_size, shown.instance.draft_length) == (2, 1)
    assert shown.file is None


def test_a_search_reads_no_source_of_the_users(monkeypatch):
    """Hypothesis looks for numbers to try in all modules outside of site-packages: here, our own."""
    read = []
    monkeypatch.setattr(providers, "_sys_modules_len", None)
    monkeypatch.setattr(providers, "_seen_modules", set())
    monkeypatch.setattr(providers, "constants_from_module", lambda module: read.append(module) or Constants())
    shown = only(audit(CHAIN["chain-always-accept"].rule, options=AuditOptions(checks=()))).counterexample
    assert (shown.total_variation > 0, read) == (True, [])


@pytest.mark.parametrize("seconds", [3, 30])
def test_a_search_that_runs_out_of_time_shows_what_it_found(monkeypatch, seconds):
    """Hypothesis judges the smallest instance once more, when the time is over; larger ones are not tried."""
    ticks = count()
    clock = SimpleNamespace(process_time=ticks.__next__)  # a second for each instance
    monkeypatch.setattr("spec_oracle.audit.counterexample.time", clock)
    monkeypatch.setattr("spec_oracle.audit.counterexample.SEARCH_SECONDS", seconds)
    shown = only(audit(CHAIN["chain-always-accept"].rule, options=AuditOptions(checks=()))).counterexample
    assert shown.total_variation > 0
    assert next(ticks) < 400  # of each size 300 instances are judged


def test_what_samples_show_is_no_fraction():
    code = SamplerCode(as_sampler(CHAIN["chain-always-accept"].rule))
    found = only(
        audit(
            SamplerSubject("always-accept", code, traceable=False),
            options=AuditOptions(checks=(), budget=2.0),
        )
    )
    assert found.evidence is Evidence.STATISTICAL
    shown = found.counterexample
    assert isinstance(shown.gap.expected, Fraction)  # of the target's rows
    assert {type(one) for one in (shown.gap.actual, shown.total_variation, *shown.actual)} == {float}


class Rejects:
    """Lossless, and useless: refuses every draft and draws from the target."""

    def verify(self, drafts, decisions):
        nowhere = drafts.tokens[:, 0] * 0 + ROOT
        return Verdict(nowhere, decisions.categorical(drafts.target.row(ROOT)), drafts)


def test_a_verifier_that_never_accepts_is_inconclusive():
    report = audit(Rejects(), options=replace(QUICK, checks=()))
    assert only(report).verdict is SubjectVerdict.INCONCLUSIVE
    assert report.exit_code == 2


def test_leaks_between_requests_are_noticed():
    statuses = {check.name: check.status for check in only(audit(NEIGHBOURS, options=QUICK)).checks}
    assert statuses["batch"] is Status.FAILED


def test_inputs_that_change_are_noticed():
    statuses = {check.name: check.status for check in only(audit(ZEROED, options=QUICK)).checks}
    assert statuses["inputs-kept"] is Status.FAILED
    assert statuses["joint"] is Status.PASSED


def test_the_panel_has_other_rows_after_every_context():
    instances = panel(3, 3, 1, 0)
    assert set(instances) >= {"reversed", "zeros", "disjoint", "equal", "point-mass"}
    flat = instances["flat"].target
    rows = [tuple(row) for level in flat.levels for row in level]
    assert len(set(rows)) > 0.9 * len(rows)


def test_several_subjects_share_one_alpha():
    report = audit("token", "block", options=replace(QUICK, vocab_size=2, checks=()))
    assert sum(subject.alpha for subject in report.subjects) <= report.alpha


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["lossless", "declared-lossy"], 0),
        (["lossless", "lossy", "inconclusive"], 1),
        (["lossless", "inconclusive"], 2),
        ([], 2),
    ],
)
def test_exit_codes_follow_from_verdicts(verdicts, code):
    assert report_of(verdicts).exit_code == code


def report_of(verdicts, *statuses, error="", known=""):
    checks = tuple(CheckResult("joint", Status(status), "", known=known) for status in statuses or ["passed"])
    subjects = [
        SubjectReport(v, "function", SubjectVerdict(v), Evidence.NONE, checks, 0.0, error=error)
        for v in verdicts
    ]
    return AuditReport(tuple(subjects), 0, 0.0)


@pytest.mark.parametrize(
    ("status", "known", "code"),
    [
        ("passed", "", 0),
        ("passed", "on record", 2),
        ("failed", "", 2),
        ("failed", "on record", 0),
        ("inconclusive", "", 2),
        ("inconclusive", "on record", 2),
        ("not-run", "", 2),
        ("not-applicable", "", 0),
        ("skipped", "", 0),
    ],
)
def test_zero_is_earned_by_every_check(status, known, code):
    assert report_of(["lossless"], "passed", known="").exit_code == 0
    assert report_of(["lossless"], status, known=known).exit_code == code


def test_errors_are_three_unless_something_is_lossy():
    assert report_of(["lossless", "inconclusive"], error="no such module").exit_code == 3
    assert report_of(["lossy", "inconclusive"], error="no such module").exit_code == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", "unknown 'nonsense'"),
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("math:nothing", "'math' has no 'nothing'"),
        ("math:pi", "neither a verifier nor an engine nor callable"),
        (lambda drafts, decisions: None, "a function of drafts and decisions; a rule is an object with"),
        (partial(lambda drafts, decisions, gamma: None, gamma=2), "a function of drafts and decisions"),
    ],
)
def test_subjects_that_lead_nowhere_are_named(name, message):
    with pytest.raises(InvalidInputError, match=message):
        audit(name)


def test_a_built_in_as_plain_function_emits_what_it_accepts():
    plain = as_sampler(verifiers.get("block"))
    drafts = Instance.random(3, 2, seed=1).floats
    rows = (drafts.draft.levels[0][None], drafts.target.levels[0][None])
    tokens, accepted = plain(
        np.array([[0]]), rows[0], np.concatenate([rows[1]] * 2, axis=1), np.random.default_rng(0)
    )
    assert tokens.shape == (1, 2)
    assert (tokens[0] >= 0).sum() == accepted[0] + 1


LOSSY = CHAIN["chain-always-accept"].rule


@pytest.mark.parametrize(
    ("subject", "options", "verdict", "code"),
    [
        (LOSSY, {}, "lossy", 1),
        (LOSSY, {"expected": {"joint": "issue 7"}, "at_most": {"joint": 1}}, "declared-lossy", 0),
        (NEIGHBOURS, {"expected": {"inputs-kept": "issue 7"}}, "lossy", 1),
        ("token", {"expected": {"joint": "issue 7"}, "at_most": {"joint": 0.1}}, "lossless", 2),
        ("token", {"expected": {"draft-law": "issue 7"}}, "lossless", 2),
        ("token", {"skip": {"draft-law": "no time"}}, "lossless", 2),
        ("token", {"skip": {"draft-law": ""}}, "lossless", 0),
        ("token", {"skip": {"batch": "no time"}}, "lossless", 0),
    ],
)
def test_failures_are_expected_with_a_reason_and_entries_out_of_date_end_with_2(
    subject, options, verdict, code
):
    about = {*options.get("expected", {}), *options.get("skip", {})}
    checks = tuple(about - {"joint"})  # `joint` is always run
    report = audit(subject, options=replace(QUICK, vocab_size=2, shrink=False, checks=checks, **options))
    assert (only(report).verdict, report.exit_code) == (verdict, code)
    known = [*options.get("expected", {}).values(), *options.get("skip", {}).values()]
    assert all(reason in AUDIT_FORMATS["text"](report) for reason in known)
