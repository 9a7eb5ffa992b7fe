"""Results that are still true are reused, and said to be; a changed line runs anew."""

import datetime as dt

import pytest

from spec_oracle.audit import AuditOptions, SubjectVerdict
from spec_oracle.audit.isolation import Isolation, audit_apart
from spec_oracle.report import audit_to_json, formatted

QUICK = AuditOptions(vocab_size=2, draft_length=1, budget=1.0, shrink=False, checks=())

RULE = """
import verifiers
from kept_helper import NAME

def verify():
    return verifiers.get(NAME)
"""
LOSSY = """
import numpy as np

def verify(draft_tokens, draft_probs, target_probs, generator):
    return np.pad(draft_tokens, ((0, 0), (0, 1))), np.full(len(draft_tokens), draft_tokens.shape[1])
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Return the working directory, with a rule and a module that it imports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept_rule.py").write_text(RULE)
    (tmp_path / "kept_helper.py").write_text("NAME = 'token'\n")
    (tmp_path / "kept_lossy.py").write_text(LOSSY)
    return tmp_path


def audited(here, name="kept_rule:verify", options=QUICK):
    lines = []
    limits = Isolation(cache=here / "kept")
    report = audit_apart([name], options, limits, lambda what, *_, **__: lines.append(what))
    (subject,) = report.subjects
    return subject, report, lines


def test_a_result_is_reused_and_says_so(here):
    first, _, _ = audited(here)
    again, report, lines = audited(here)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    assert (first.as_on, again.as_on) == ("", today)
    assert again.checks == first.checks
    assert f"kept_rule:verify: lossless, as on {today}" in lines
    assert f"as on {today}: kept_rule:verify" in formatted(report, "text")
    assert audit_to_json(report)["subjects"][0]["as_on"] == today


@pytest.mark.parametrize("file", ["kept_rule.py", "kept_helper.py"])
def test_a_changed_line_runs_anew(here, file):
    audited(here)
    (here / file).write_text((here / file).read_text() + "\n# changed\n")
    assert audited(here)[0].as_on == ""
    assert audited(here)[0].as_on


def test_other_options_and_another_environment_run_anew(here, monkeypatch):
    audited(here)
    assert audited(here, options=AuditOptions(vocab_size=2, draft_length=1, checks=(), seed=1))[0].as_on == ""
    monkeypatch.setattr("spec_oracle.audit.cache.environment", lambda: "another")
    assert audited(here)[0].as_on == ""


def test_lossy_results_and_broken_files_are_not_reused(here):
    for _ in range(2):
        subject, _, _ = audited(here, "kept_lossy:verify")
        assert (subject.verdict, subject.as_on) == (SubjectVerdict.LOSSY, "")
    assert not [*(here / "kept").glob("*.pickle")]
    audited(here)
    (file,) = (here / "kept").glob("*.pickle")
    file.write_bytes(b"no pickle")
    assert audited(here)[0].as_on == ""


def test_without_a_folder_nothing_is_kept(here):
    audit_apart(["kept_rule:verify"], QUICK)
    assert not (here / "kept").exists()
