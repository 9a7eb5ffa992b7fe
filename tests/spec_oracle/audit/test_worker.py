"""Processes end when they should, and a user's file that hides a package of ours is named."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from spec_oracle.audit import AuditOptions, SubjectVerdict, subjects
from spec_oracle.audit.isolation import audit_apart
from spec_oracle.audit.options import Isolation
from spec_oracle.errors import InvalidInputError
from tests.strategies import by_day

QUICK = AuditOptions(vocab_size=2, draft_length=1, budget=1.0, shrink=False, checks=())

BUSY = """
import os, pathlib, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def verify(tokens, draft_probs, target_probs, generator):
    pathlib.Path("worker").write_text(str(os.getpid()))
    while True:
        pass
"""

RIGHT = """
import sys
import verifiers
from spec_oracle.contracts import as_sampler
TOKEN = as_sampler(verifiers.get("token"))
def verify(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens, draft_probs, target_probs, generator)
def closes(tokens, draft_probs, target_probs, generator):
    sys.stdout.close()
    return TOKEN(tokens, draft_probs, target_probs, generator)
"""


def appears(file, seconds=60.0):
    """Return the number in a file, as soon as it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if file.exists() and (text := file.read_text()):
            return int(text)
        time.sleep(0.1)
    raise AssertionError(f"{file} did not appear")


def has_ended(pid, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_command(tmp_path, number):
    (tmp_path / "busy.py").write_text(BUSY)
    command = [sys.executable, "-m", "spec_oracle.cli", "audit", "busy:verify", "--format", "json"]
    with subprocess.Popen([*command, "--output", "report.json"], cwd=tmp_path, start_new_session=True) as run:
        try:
            worker = appears(tmp_path / "worker")
            os.kill(run.pid, number)
            assert run.wait(timeout=60) == (2 if number == signal.SIGTERM else -number)
            assert has_ended(worker)
        finally:
            run.kill()
    if number == signal.SIGTERM:
        (subject,) = json.loads((tmp_path / "report.json").read_text())["subjects"]
        assert {check["detail"] for check in subject["checks"] if not check["reason"]} == {"interrupted"}


@pytest.mark.parametrize(
    ("name", "subject"),
    by_day(
        [*product(["verifiers", "spec_oracle", "torch"], ["mine", ""])],
        [("verifiers", "mine"), ("torch", "")],
    ),
)
def test_a_file_with_the_name_of_a_package_of_ours_is_named(tmp_path, monkeypatch, name, subject):
    (tmp_path / f"{name}.py").write_text(RIGHT)
    (tmp_path / "mine.py").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    report = audit_apart([f"{subject or name}:verify", "token"], QUICK, Isolation())
    hidden, right = report.subjects
    assert hidden.error.startswith(f"subject: {name}.py in this folder has the name of the package '{name}'")
    assert hidden.error.endswith("rename it")
    assert {check.detail for check in hidden.checks} == {hidden.error}
    assert "Traceback" not in hidden.code.output
    assert (right.verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 3)


def test_a_file_with_the_name_of_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(subjects, "OUR_MODULES", ("not_there",))
    file = tmp_path / "not_there.py"
    file.write_text(RIGHT)
    with pytest.raises(InvalidInputError, match=r"not_there.py in this folder has the name of the package"):
        subjects.imported(f"{file}:verify")


def test_the_command_says_so_in_one_line(tmp_path):
    (tmp_path / "verifiers.py").write_text(RIGHT)
    command = [str(Path(sys.executable).with_name("spec-oracle")), "audit", "verifiers:verify"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "verifiers.py in this folder has the name of the package 'verifiers'" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_closed_output_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "mine_too.py").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    (found,) = audit_apart(["mine_too:closes"], QUICK).subjects
    assert found.verdict is SubjectVerdict.LOSSLESS


STARTS = """
import sys
from spec_oracle.audit import AuditOptions, audit
report = audit("mine:verify", options=AuditOptions(budget=0.2, vocab_size=2, draft_length=1))
print(report.exit_code, *({"scipy.stats", "scipy.optimize"} & {*sys.modules}))
"""


def test_a_default_audit_starts_without_what_only_defects_need(tmp_path):
    """The verdict waits for all that is imported: scipy.stats, or scipy.optimize, takes most of a second."""
    (tmp_path / "mine.py").write_text(RIGHT)
    done = subprocess.run(
        [sys.executable, "-c", STARTS], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split()[1:] == []
    assert done.stdout.strip().isdigit()
