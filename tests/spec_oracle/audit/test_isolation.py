"""Each subject has a process of its own: whatever it does, its row is right and the other rows are intact."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from spec_oracle.audit import AuditOptions, CheckResult, Status, SubjectVerdict
from spec_oracle.audit.isolation import audit_apart
from spec_oracle.audit.journal import Job, lost_subject
from spec_oracle.audit.options import Isolation
from spec_oracle.audit.registry import known
from spec_oracle.audit.results import UNTRIED
from spec_oracle.audit.run import as_subject
from spec_oracle.audit.suite import ENGINE
from spec_oracle.audit.worker import NOT_TRACED
from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.report.what_to_do import what_to_do
from tests.strategies import at_night, by_day
from tests.subjects import checks_of

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
QUICK = AuditOptions(vocab_size=2, draft_length=2, budget=2.0, shrink=False)


@pytest.fixture(autouse=True)
def beside_the_escapes(monkeypatch):
    monkeypatch.chdir(HERE)


def audited(*names, jobs=1, timeout=60.0, memory=None, options=QUICK):
    report = audit_apart([f"escapes:{name}" for name in names], options, Isolation(jobs, timeout, memory))
    return report, report.subjects


def said(subject):
    """Return all that the row of a subject says."""
    return "; ".join([*(check.detail for check in subject.checks), *subject.remarks.notes])


def test_a_sampler_that_crashes_while_it_is_traced_is_sampled(monkeypatch):
    """Its false-alarm rate is that of the audit, 1e-6."""
    monkeypatch.chdir(ROOT)
    name = "tests.spec_oracle.audit.sampler.memory:writes_at_an_address"
    options = AuditOptions(draft_length=1, checks=(), budget=30.0)
    (subject,) = audit_apart([name], options, Isolation()).subjects
    assert subject.verdict is SubjectVerdict.LOSSLESS
    assert NOT_TRACED in subject.remarks.notes


ONLY_THE_LAW = AuditOptions(vocab_size=2, draft_length=2, budget=2.0, shrink=False, checks=())
ESCAPES = {
    "exits": "raised SystemExit: 0",
    "ends_its_process": "its process ended itself with exit code 0",
    "EndingEngine": "its process ended itself with exit code 0",
    "crashes": "its process was ended by SIGSEGV",
    "WantsArguments": "cannot be loaded: raised TypeError",
}


@pytest.fixture(scope="module")
def escaped():
    """Return the report on all that escapes, between two right functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HERE)
        names = ("right", *ESCAPES, "right")
        return audited(*names, jobs=2, options=ONLY_THE_LAW)[0]


@pytest.mark.parametrize("name", ESCAPES)
def test_code_that_escapes_is_inconclusive_with_its_reason(escaped, name):
    (found,) = (subject for subject in escaped.subjects if subject.subject == f"escapes:{name}")
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert ESCAPES[name] in said(found)


def test_code_that_hangs_is_ended():
    report, (found,) = audited("hangs", timeout=1.0, options=ONLY_THE_LAW)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.INCONCLUSIVE, 2)
    assert "still running after 1 s" in said(found)
    assert what_to_do(found) == "spec-oracle audit escapes:hangs --timeout 4"


def test_rows_beside_what_escapes_are_intact_and_shown(escaped):
    before, *_, after = escaped.subjects
    assert (before.verdict, after.verdict) == (SubjectVerdict.LOSSLESS, SubjectVerdict.LOSSLESS)
    assert escaped.exit_code == 2
    assert all(render(escaped) for render in AUDIT_FORMATS.values())


def test_code_that_fills_the_memory_is_inconclusive():
    report, (found, right) = audited("fills_memory", "right", memory=1.0, options=ONLY_THE_LAW)
    assert (found.verdict, right.verdict) == (SubjectVerdict.INCONCLUSIVE, SubjectVerdict.LOSSLESS)
    assert "MemoryError" in said(found)
    assert report.exit_code == 2


@pytest.mark.nightly
def test_traced_code_that_draws_for_ever_is_ended():
    report, (_, found, _) = audited(
        "right", "decides_without_end", "right", timeout=8.0, options=ONLY_THE_LAW
    )
    assert (found.verdict, report.exit_code) == (SubjectVerdict.INCONCLUSIVE, 2)
    assert "still running after 8 s" in said(found)


@pytest.mark.parametrize("last", ENGINE)
def test_an_engine_whose_process_is_gone_has_a_report_in_every_check(tmp_path, last):
    engine = as_subject("escapes:EndingEngine", AuditOptions())
    names = [*ENGINE]
    before = names[: names.index(last)]
    with (tmp_path / "journal").open("wb") as journal:
        for entry in (lost_subject(engine), *(CheckResult(name, Status.PASSED, "fine") for name in before)):
            pickle.dump(entry, journal)
    found = Job("an engine", AuditOptions(), tmp_path).remains("it is gone", 1e-9)
    is_lossless = found.verdict is SubjectVerdict.LOSSLESS
    assert is_lossless == (last != "joint")
    assert found.remarks.proviso == ("as its own next_token_probs says" if is_lossless else "")
    assert found.code.place.startswith("escapes.py:")


def test_a_verifier_that_takes_nothing_is_broken():
    report, (subject,) = audited("NoRule", options=ONLY_THE_LAW)
    assert (subject.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert "raised TypeError" in said(subject)
    assert "it is called as verify(drafts, decisions)" in said(subject)


@pytest.mark.parametrize("jobs", [2, *at_night(1)])
def test_a_lossy_subject_stays_lossy_when_the_next_one_crashes(jobs):
    report, (lossy, *_) = audited(
        "always_accepts", "ends_its_process", "exits", jobs=jobs, options=ONLY_THE_LAW
    )
    assert lossy.verdict is SubjectVerdict.LOSSY
    assert report.exit_code == 1


def test_findings_before_the_end_of_a_process_are_in_the_report():
    report, (subject,) = audited(
        "exits_where_the_vocabulary_is_large", options=replace(QUICK, checks=("shapes",))
    )
    checks = checks_of(subject)
    assert checks["joint"].status is Status.PASSED
    assert checks["shapes"].status is Status.INCONCLUSIVE
    assert "exit code 0" in checks["shapes"].detail
    assert subject.verdict is SubjectVerdict.LOSSLESS
    assert report.exit_code == 2


def test_ragged_lists_break_the_contract():
    report, (subject,) = audited("ragged", options=ONLY_THE_LAW)
    assert "tokens: expected an array of integers" in said(subject)
    assert (subject.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)


def test_threads_do_not_harm():
    _, (subject,) = audited("starts_threads", options=AuditOptions(draft_length=1, shrink=False, checks=()))
    assert subject.verdict is SubjectVerdict.LOSSLESS


@pytest.mark.parametrize("form", by_day(AUDIT_FORMATS, ["text", "json"]))
def test_output_of_the_code_is_in_the_report_and_nowhere_else(form, capfd):
    arguments = ["audit", "escapes:prints", "--draft-length", "1", "--check", "inputs-kept", "--format", form]
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    assert "secret" not in err
    if form == "json":
        (subject,) = json.loads(out)["subjects"]
        assert "secret number 42" in subject["output"]
        assert "and past Python" in subject["output"]
        assert len(subject["output"]) < 3000
    elif form == "junit":
        assert ET.fromstring(out).find("testsuite") is not None
    else:
        assert "secret number 42" in out


def test_reports_do_not_depend_on_the_number_of_processes():
    names, plain = ("token", "escapes:right"), replace(QUICK, checks=("inputs-kept",), budget=600.0)
    alone, together = (audit_apart(names, plain, Isolation(jobs)) for jobs in (1, 2))
    one, other = (re.sub(r'"seconds": .*', "", AUDIT_FORMATS["json"](report)) for report in (alone, together))
    assert one == other


def test_own_verifiers_come_last_as_they_are_quick():
    told, names = [], ("token", "escapes:right", "block")
    steps = []

    def tell(line, done, of, *, step=False, now=""):
        (steps if step else told).append(line)

    report = audit_apart(names, replace(QUICK, checks=()), progress=tell)
    assert [line.partition(":")[0] for line in told if line] == ["escapes", "token", "block"]
    assert {line.rpartition(",")[0] for line in steps} <= {f"{name}: joint passed" for name in names}
    assert [subject.subject for subject in report.subjects] == list(names)


def test_a_module_that_raises_on_import_has_a_row(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no driver')")
    monkeypatch.chdir(tmp_path)
    report = audit_apart(["broken_module:verify", "token"], ONLY_THE_LAW)
    broken, token = report.subjects
    assert {check.detail for check in broken.checks} == {
        "cannot be loaded: raised RuntimeError: no driver (at broken_module.py:1)"
    }
    assert all(check.status in UNTRIED for check in broken.checks)
    assert (token.verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 2)


def test_a_sampler_that_is_not_here_has_the_command_that_fetches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEC_ORACLE_ENGINES", str(tmp_path))
    (found,) = audit_apart(["vllm-v0"], ONLY_THE_LAW).subjects
    assert {check.remarks.do for check in found.checks} == {known("vllm-v0").install}


def test_a_missing_attribute_is_a_usage_error_after_the_report():
    report, (missing, right) = audited("nothing", "right", options=ONLY_THE_LAW)
    assert "has no 'nothing'" in missing.error
    assert right.verdict is SubjectVerdict.LOSSLESS
    assert report.exit_code == 3


def test_names_that_lead_nowhere_are_refused_before_anything_runs():
    with pytest.raises(InvalidInputError, match="unknown 'nothing'"):
        audit_apart(["token", "nothing"], QUICK)
    with pytest.raises(InvalidInputError, match="cannot import"):
        audit_apart(["no_such_module:f"], QUICK)


@pytest.mark.parametrize("limits", [{"jobs": 0}, {"timeout": 0.0}, {"memory": 0}])
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(InvalidInputError, match=next(iter(limits))):
        Isolation(**limits)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
def test_ctrl_c_leaves_a_report_of_finished_checks(tmp_path):
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "spec_oracle.cli", "audit", "escapes:right", "escapes:hangs", "block"]
    options = ["--jobs", "1", "--check", "inputs-kept", "--format", "json", "--output", str(file)]
    # Tests in the background of a shell inherit a Ctrl-C that is ignored; a process of ours must not.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, start_new_session=True
        ) as running:
            assert b"right" in running.stderr.readline()
            time.sleep(1.0)
            os.killpg(running.pid, signal.SIGINT)
            try:
                assert running.wait(timeout=60) == 2
            finally:
                running.kill()
    finally:
        signal.signal(signal.SIGINT, heard)
    right, hanging, block = json.loads(file.read_text())["subjects"]
    assert right["verdict"] == "lossless"
    assert {check["reason"] for check in block["checks"]} == {"interrupted"}
    assert hanging["verdict"] == "inconclusive"
