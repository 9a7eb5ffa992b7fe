"""Results that are still true are reused, and said to be; a changed line runs anew."""

import datetime as dt
from dataclasses import replace

import pytest

from spec_oracle.audit import AuditOptions, SubjectVerdict, cache
from spec_oracle.audit.isolation import audit_apart
from spec_oracle.audit.options import Isolation
from spec_oracle.report import audit_to_json
from spec_oracle.report.audit_text import audit_to_text

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


def test_a_result_is_reused_and_says_so_until_a_line_changes(here):
    first, _, _ = audited(here)
    again, report, lines = audited(here)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    assert (first.as_on, again.as_on) == ("", today)
    assert again.checks == first.checks
    assert f"kept_rule:verify: lossless, as on {today}" in lines
    assert f"as on {today}: kept_rule:verify" in audit_to_text(report)
    assert audit_to_json(report)["subjects"][0]["as_on"] == today
    for file in (here / "kept_rule.py", here / "kept_helper.py"):
        file.write_text(file.read_text() + "\n# changed\n")
        assert audited(here)[0].as_on == ""


def test_other_options_another_environment_or_a_broken_file_miss_the_cache(here, monkeypatch):
    audited(here)

    def is_found(options=QUICK, alpha=QUICK.alpha):
        return cache.found(here / "kept", "kept_rule:verify", options, alpha) is not None

    assert is_found()
    assert not is_found(replace(QUICK, seed=1))
    assert not is_found(alpha=QUICK.alpha / 2)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "environment", lambda: "another")
        assert not is_found()
    (file,) = (here / "kept").glob("*.pickle")
    file.write_bytes(b"no pickle")
    assert not is_found()


def test_lossy_results_are_not_kept(here):
    subject, _, _ = audited(here, "kept_lossy:verify")
    assert subject.verdict is SubjectVerdict.LOSSY
    assert not (here / "kept").exists()
