"""Baselines: who accepts less than before is red, and the report says how much and where most."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, AuditReport, Evidence, Status, SubjectVerdict, audit
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.baseline import CHECK, read_baseline, update_baseline, with_baseline
from spec_oracle.report import AUDIT_FORMATS
from verifiers import ROOT, Verdict

QUICK = AuditOptions(vocab_size=2, draft_length=2, checks=())
TOKEN = verifiers.get("token")


class Rejecting:
    """The token rule, but a share of requests gets no draft accepted: as lossless, and slower."""

    def __init__(self, share):
        self.share = share

    def verify(self, drafts, decisions):
        right = TOKEN.verify(drafts, decisions)
        target = drafts.target.row(ROOT)
        refused = decisions.bernoulli(0 * target[:, 0] + self.share)
        token = np.where(refused, decisions.categorical(target), right.next_token)
        return Verdict(np.where(refused, ROOT, right.node), token, drafts)


@cache
def report_on(share=0.0):
    return audit(RuleSubject("mine", Rejecting(share)), options=QUICK)


def compared(report, file):
    report = with_baseline(report, read_baseline(file))
    (subject,) = report.subjects
    return report, subject, subject.checks[-1]


@pytest.fixture
def kept(tmp_path):
    file = tmp_path / "kept" / "baseline.json"
    assert update_baseline(file, report_on()) == ["mine"]
    return file


@pytest.mark.parametrize(
    ("share", "status", "code", "detail"),
    [
        (0.0, Status.PASSED, 0, "tokens per call, unchanged"),
        (0.02, Status.FAILED, 2, "on 'equal': 3.0000 to 2.9600 tokens per call (-1.33 %)"),
        (1e-5, Status.FAILED, 2, "accepts less than before"),
    ],
)
def test_a_subject_that_accepts_less_fails_the_baseline_and_stays_lossless(kept, share, status, code, detail):
    report, subject, check = compared(report_on(share), kept)
    assert (check.name, check.status, report.exit_code) == (CHECK, status, code)
    assert detail in check.detail
    assert subject.verdict is SubjectVerdict.LOSSLESS
    clause = check.detail.partition(";")[0]
    assert all(clause in AUDIT_FORMATS[form](report) for form in ("text", "json", "markdown"))


def test_a_subject_that_accepts_more_is_reported_and_kept_on_demand(kept):
    slower = report_on(0.02)
    update_baseline(kept, slower)
    report, _, check = compared(report_on(), kept)
    assert (check.status, report.exit_code) == (Status.PASSED, 0)
    assert "accepts more than before, " in check.detail
    assert f"proven       {check.detail.partition(';')[0]}" in AUDIT_FORMATS["text"](report)
    assert compared(slower, kept)[2].status is Status.PASSED


def test_incomparable_results_do_not_pass(kept):
    longer = AuditOptions(vocab_size=2, draft_length=1, checks=())
    report, _, check = compared(audit(RuleSubject("mine", Rejecting(0.0)), options=longer), kept)
    assert (check.status, report.exit_code) == (Status.INCONCLUSIVE, 2)
    assert check.detail.startswith("found on other instances: flat, good-draft, ")
    stranger = with_baseline(audit("token", options=QUICK), read_baseline(kept))
    assert stranger.subjects[0].checks[-1].detail == "no entry"
    assert "do: make an entry with --update-baseline" in AUDIT_FORMATS["text"](stranger)
    assert stranger.exit_code == 2
    # The same law, but from draws: an entry that was exact cannot be checked any more.
    (subject,) = report_on().subjects
    drawn = compared(audit_of(subject, evidence=Evidence.STATISTICAL), kept)[2]
    assert (drawn.status, drawn.detail[:23]) == (Status.INCONCLUSIVE, "its distribution is no ")


def audit_of(subject, **changes):
    return AuditReport((replace(subject, **changes),), 0, 1e-6)


def test_lossy_or_sampled_results_are_neither_compared_nor_kept(kept):
    lossy = audit(RuleSubject("mine", Lossy(), Facts()), options=QUICK)
    before = kept.read_text()
    assert update_baseline(kept, lossy) == []
    assert kept.read_text() == before
    assert compared(lossy, kept)[2].status is Status.NOT_APPLICABLE


class Lossy:
    """Accepts everything."""

    def verify(self, drafts, decisions):
        bonus = decisions.categorical(drafts.target_probs[:, 0, -1])
        zero = drafts.tokens[:, 0, 0] * 0
        return Verdict(zero + drafts.draft_length, zero, bonus, drafts.tokens)


def test_a_baseline_keeps_other_subjects_in_a_stable_order(kept):
    update_baseline(kept, audit("token", "block", options=QUICK))
    assert list(read_baseline(kept)) == ["block", "mine", "token"]
    before = kept.read_text()
    update_baseline(kept, report_on())
    assert kept.read_text() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read: "),
        ("[]", "bad.json: baseline_version: expected 1, got None"),
        ('{"baseline_version": 1}', "a value is missing or wrong (KeyError: 'subjects')"),
        ('{\n"baseline_version": 7, "subjects": {}}', "bad.json: baseline_version: expected 1, got 7"),
        ('{\n"baseline_version": true}', "bad.json: baseline_version: expected 1, got True"),
    ],
)
def test_files_that_are_no_baselines_are_refused(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InvalidInputError, match="bad.json:") as caught:
        read_baseline(tmp_path / "bad.json")
    assert message in str(caught.value)


GOOD = """{
 "baseline_version": 1,
 "tool_version": "0.1.0",
 "subjects": {
  "mine": {
   "error": 2e-06,
   "instances": [
    {"instance": "flat", "digest": "0a", "block_efficiency": 2.5},
    {"instance": "zeros", "digest": "0b", "block_efficiency": 1.0}
   ]
  }
 }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2e-06", "10", "error: expected a number from 0 to 0.1, got 10"),
        ("2e-06", "-1e-6", "error: expected a number from 0 to 0.1, got -1e-06"),
        ("2e-06", "NaN", "error: expected a number from 0 to 0.1, got nan"),
        ("2e-06", "null", "TypeError"),
        ("2e-06", '"2e-06"', "TypeError"),
        ('"error": 2e-06,', "", "KeyError: 'error'"),
        ("2.5", "NaN", "block_efficiency: expected numbers of at least 1"),
        ("2.5", "0.5", "block_efficiency: expected numbers of at least 1"),
        ("2.5", "Infinity", "block_efficiency: expected numbers of at least 1"),
        ('"digest": "0b"', '"digets": "0b"', "KeyError: 'digest'"),
        ("0b", "0a", "instances: one of them appears twice"),
    ],
)
def test_impossible_numbers_in_a_baseline_are_refused(tmp_path, old, new, message):
    file = tmp_path / "b.json"
    file.write_text(GOOD)
    assert read_baseline(file)["mine"].mean == 1.75
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidInputError) as caught:
        read_baseline(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:")
    assert str(caught.value).endswith("or delete the file and write it again with --update-baseline")


def test_an_error_that_a_run_does_not_have_hides_no_change(kept):
    assert compared(report_on(1e-5), kept)[2].status is Status.FAILED
    kept.write_text(kept.read_text().replace('"error": 2e-06', '"error": 0.09'))
    assert read_baseline(kept)["mine"].error == 0.09
    check = compared(report_on(1e-5), kept)[2]
    assert check.status is Status.INCONCLUSIVE
    assert "it was found up to 0.09 tokens per call, and now up to 2e-06" in check.detail


def test_the_command_writes_and_compares(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec-oracle.toml").write_text(
        'subjects = ["block"]\ndraft-length = 1\nvocab-size = 2\nchecks = []\nbaseline = "b.json"\n'
    )
    assert main(["audit"]) == 3
    assert "b.json: no such file; write the baseline first, with --update-baseline" in capsys.readouterr().err
    assert main(["audit", "--update-baseline"]) == 0
    assert "baseline: b.json holds block" in capsys.readouterr().err
    assert main(["audit"]) == 0
    data = json.loads((tmp_path / "b.json").read_text())
    data["subjects"]["block"]["instances"][2]["block_efficiency"] += 0.25
    (tmp_path / "b.json").write_text(json.dumps(data))
    assert main(["audit"]) == 2
    assert "✗ baseline  accepts less than before" in capsys.readouterr().out
    assert main(["audit", "--update-baseline", "--no-config", "block"]) == 3
    data["subjects"]["block"]["error"] = 10
    (tmp_path / "b.json").write_text(json.dumps(data))
    for more in ([], ["--update-baseline"]):
        assert main(["audit", *more]) == 3
        assert "error: expected a number from 0 to 0.1" in capsys.readouterr().err
