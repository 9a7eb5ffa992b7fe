"""A mistake of a wrapper is told in one sentence, with the line; it is never said of a distribution."""

import json
from dataclasses import replace

import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import NOTHING_DECLARED
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.audit.verdict import verdict_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.report import AUDIT_FORMATS
from tests.spec_oracle.audit import wrappers
from tests.subjects import checks_of

QUICK = AuditOptions(vocab_size=2, draft_length=1, budget=1.0, shrink=False, checks=("inputs-kept",))


def report_on(name, options=QUICK):
    return audit(getattr(wrappers, name), options=options)


@pytest.mark.parametrize("name", wrappers.MISTAKES)
def test_a_mistake_of_the_wrapper_is_one_sentence_and_no_distribution(name):
    report = report_on(name)
    (found,) = report.subjects
    assert (found.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert (found.evidence, found.total_variation, found.counterexample) == (Evidence.NONE, None, None)
    (failed,) = [check for check in found.checks if check.status is Status.FAILED]
    assert wrappers.MISTAKES[name] in failed.detail
    assert "wrappers.py:" in failed.detail
    assert "internal error" not in failed.detail
    assert all(
        check.status in (Status.SKIPPED, Status.NOT_APPLICABLE, Status.FAILED) for check in found.checks
    )
    for render in AUDIT_FORMATS.values():
        assert "broken" in render(report)


@pytest.mark.parametrize("name", wrappers.RIGHT)
def test_odd_wrappers_that_keep_the_contract_are_lossless(name):
    report = report_on(name)
    assert (report.subjects[0].verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 0)
    assert report.subjects[0].kind == "sampler"


def test_rare_impossible_values_of_a_wrapper_that_fits_are_a_wrong_distribution():
    report = report_on("ids_beyond_now_and_then")
    assert (report.subjects[0].verdict, report.exit_code) == (SubjectVerdict.LOSSY, 1)


def test_no_output_at_some_sizes_is_a_broken_contract():
    code = SamplerCode(wrappers.no_output_of_large_vocabularies)
    found = result_of("scale", SamplerSubject("mine", code), Context())
    assert "verify returned None" in found.detail
    joint = CheckResult("joint", Status.PASSED, "right")
    assert verdict_of((joint, found), NOTHING_DECLARED) is SubjectVerdict.BROKEN


def test_a_folder_that_cannot_be_written_keeps_the_verdict(tmp_path):
    (tmp_path / "file").write_text("")
    report = report_on("always_accepts", replace(QUICK, counterexamples=tmp_path / "file"))
    found = report.subjects[0].counterexample
    assert (report.subjects[0].verdict, report.exit_code) == (SubjectVerdict.LOSSY, 1)
    assert found.file is None
    assert "not saved: " in AUDIT_FORMATS["text"](report)
    assert json.loads(AUDIT_FORMATS["json"](report))["subjects"][0]["counterexample"]["not_saved"]


class RaisesInLaterChecks:
    """A right rule that refuses batches of 130 requests, which `joint` does not have."""

    def verify(self, drafts, decisions):
        if drafts.batch == 130:
            raise KeyError("no such batch")
        return verifiers.get("token").verify(drafts, decisions)


def test_exceptions_of_a_rule_in_later_checks_are_its_own():
    (found,) = audit(RaisesInLaterChecks, options=replace(QUICK, checks=("batch",))).subjects
    batch = checks_of(found)["batch"]
    assert batch.status is Status.INCONCLUSIVE
    assert "raised KeyError: 'no such batch' (at tests/spec_oracle/audit/test_broken.py:" in batch.detail
