"""Golden reports: what is recorded, that it does not depend on time, and that a difference is told."""

import itertools
import json
import threading
import time

import numpy as np
import pytest

import verifiers
from lab.kill_matrix import golden
from lab.kill_matrix.golden import (
    FILE,
    NO_REPORT,
    NOT_INSTALLED,
    SUBJECT,
    audited,
    differences,
    first_sentence,
    main,
    read,
    to_text,
)
from lab.kill_matrix.golden_subjects import CONTROLS, DEFECTS, listed, specimen_of
from lab.kill_matrix.work_clock import CALL, CLOCKS, READ, REQUEST, counted
from lab.specimens.specimen import KINDS
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.errors import EngineError, InvalidInputError

SMALL = {
    "rule token": {
        SUBJECT: {"verdict": "lossless", "exit_code": 0, "total_variation": 0.0},
        "joint": {"status": "passed", "how": "proven", "detail": "total variation at most 0"},
        "batch": {"status": "passed", "how": "replayed", "detail": "same results alone"},
    }
}
"""A file of one report."""


def changed(line, **fields):
    """Return the small file with other fields of a line."""
    (report,) = SMALL.values()
    return {"rule token": {**report, line: {**report[line], **fields}}}


def compared(tmp_path, old, new):
    """Return the exit code of ``--compare``."""
    files = tmp_path / "old.json", tmp_path / "new.json"
    for file, reports in zip(files, (old, new), strict=True):
        file.write_text(to_text(reports), "utf-8")
    return main(["--compare", *map(str, files)])


# What is recorded.


def test_every_listed_subject_has_a_recorded_report_and_no_other():
    found = read(FILE)
    assert {*found} == {*listed()}
    assert not {lines[SUBJECT]["verdict"] for lines in found.values()} & {NO_REPORT, NOT_INSTALLED}
    assert FILE.read_text("utf-8") == to_text(found)


def test_subjects_are_of_all_kinds():
    defects, controls = DEFECTS.split(), CONTROLS.split()
    assert len({*defects}) == len(defects) >= 40
    assert len({*controls}) == len(controls) >= 15
    for names, is_control in ((defects, False), (controls, True)):
        chosen = [specimen_of(name) for name in names]
        assert {one.kind for one in chosen} == {*KINDS}
        assert {one.array for one in chosen} == {"numpy", "torch"}
        assert {one.num_paths for one in chosen} == {1, 2}
        assert {one.is_control for one in chosen} == {is_control}


def test_every_check_passes_somewhere_and_fails_somewhere():
    """A golden file in which a check never fails would not notice that it cannot fail."""
    statuses = {}
    for lines in read(FILE).values():
        for name, line in lines.items():
            statuses.setdefault(name, set()).add(line.get("status"))
    for name in statuses.keys() - {SUBJECT, "model"}:
        assert {"passed", "failed"} <= statuses[name], name


def test_a_name_that_is_no_specimen_is_refused():
    with pytest.raises(InvalidInputError, match="always-acept"):
        specimen_of("always-acept")


# Reports do not depend on time.


@pytest.mark.parametrize(
    ("name", "verdict", "exit_code"),
    [
        ("specimen stale-draft-buffer", "lossy", 1),
        ("specimen pattern-short-stop-window", "lossy", 1),
        ("transcripts biased-late", "lossy", 1),
    ],
)
def test_a_machine_a_thousand_times_slower_reports_the_same(name, verdict, exit_code, monkeypatch):
    """A sampler, an engine, and completions of a server; for a rule see `test_same_json`."""
    found = audited(name)
    assert (found[SUBJECT]["verdict"], found[SUBJECT]["exit_code"]) == (verdict, exit_code)
    real, slower = time.process_time, itertools.count(step=1000)
    for clock in CLOCKS:
        monkeypatch.setattr(time, clock, lambda: real() + next(slower))
    assert audited(name) == found


def test_work_is_counted_and_time_is_not():
    code, toy = SamplerCode(as_sampler(verifiers.get("token"))), panel(3, 2, 1, 0)["flat"]
    drafts, generator = sampled_drafts(toy, 64, np.random.default_rng(0)), code.generator(0)
    real = time.monotonic
    with counted() as clock:
        threading.Event().wait(0.01)
        assert [time.monotonic(), time.process_time(), time.perf_counter()] == [1e-5, 2e-5, 3e-5]
        other = threading.Thread(target=time.perf_counter)
        other.start()
        other.join()
        assert clock.microseconds == 3 * READ
        code(drafts, generator)
        assert 0 <= clock.microseconds - (64 * REQUEST + CALL) < 10 * READ
    assert time.monotonic is real


# Differences are told.


def test_equal_files_have_no_difference(tmp_path, capsys):
    assert compared(tmp_path, SMALL, SMALL) == 0
    assert capsys.readouterr().out == "no difference\n"


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        (changed(SUBJECT, verdict="lossy"), ["rule token, subject, verdict:", "  - lossless", "  + lossy"]),
        (
            changed(SUBJECT, total_variation=0.1),
            ["rule token, subject, total_variation:", "  - 0.0", "  + 0.1"],
        ),
        (changed("joint", how="sampled"), ["rule token, joint, how:", "  - proven", "  + sampled"]),
        (
            changed("joint", detail="?"),
            ["rule token, joint, detail:", "  - total variation at most 0", "  + ?"],
        ),
        ({}, ["rule token:", "  - lossless", "  + (none)"]),
    ],
)
def test_a_difference_is_named_with_both_values(new, lines, tmp_path, capsys):
    assert compared(tmp_path, SMALL, new) == 1
    assert capsys.readouterr().out.splitlines() == [*lines, "1 difference, in 1 subject"]


def test_a_check_that_is_gone_is_one_difference():
    (report,) = SMALL.values()
    less = {"rule token": {line: values for line, values in report.items() if line != "batch"}}
    (found,) = differences(SMALL, less)
    assert (found.subject, found.line, found.new) == ("rule token", "batch", None)
    (found,) = differences(less, SMALL)
    assert (found.subject, found.line, found.old) == ("rule token", "batch", None)


def test_a_check_has_a_line_of_its_own():
    text = to_text(SMALL)
    assert json.loads(text) == SMALL
    (line,) = [line for line in text.splitlines() if '"joint"' in line]
    assert json.loads("{" + line.strip().rstrip(",") + "}")["joint"]["how"] == "proven"


@pytest.mark.parametrize(
    ("detail", "first"),
    [
        ("raised KeyError (at /home/me/engine.py:12); sampled instead", "raised KeyError (at engine.py:N)"),
        (
            "wrong (at lab/specimens/foreign/rows.py:41, from mine.py:3)",
            "wrong (at rows.py:N, from mine.py:N)",
        ),
        ("off by 1.7e-17 at most. More follows", "off by 0 at most"),
        ("off by 0.0e+00 at most, by 3.2e-05 elsewhere", "off by 0 at most, by 3.2e-05 elsewhere"),
        ("takes 5 requests, about 1,200.5 s at 47 a second", "takes 5 requests, about N s at N a second"),
        ("0.02 must be excluded (--budget 130 should do)", "0.02 must be excluded (--budget N should do)"),
        ("<Engine at 0x7f3a>: 12 of 13 tokens", "<Engine at 0x>: 12 of 13 tokens"),
    ],
)
def test_the_first_sentence_has_nothing_of_the_machine(detail, first):
    assert first_sentence(detail) == first


def not_here(_):
    raise EngineError("mlx-lm: mlx not installed: pip install mlx")


def stumbles(_):
    raise KeyError("joint")


@pytest.mark.parametrize(
    ("make", "verdict", "reason"),
    [
        (not_here, NOT_INSTALLED, "mlx-lm: mlx not installed: pip install mlx"),
        (stumbles, NO_REPORT, "KeyError: 'joint'"),
    ],
)
def test_a_subject_without_report_is_recorded_with_the_reason(make, verdict, reason, monkeypatch):
    monkeypatch.setattr(golden, "listed", lambda: {"some": make})
    assert audited("some") == {SUBJECT: {"verdict": verdict, "reason": reason}}


def test_a_subject_without_report_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(golden, "listed", lambda: {"some": not_here})
    monkeypatch.setattr(golden, "reports", lambda names, *_: {name: audited(name) for name in names})
    monkeypatch.setattr(golden, "FILE", golden.ROOT / "no such file")
    assert main(["some"]) == 1
    assert "some: not installed: mlx-lm: mlx not installed" in capsys.readouterr().out


def test_a_file_that_holds_no_reports_is_refused(tmp_path, capsys):
    assert main(["--compare", str(tmp_path / "none.json"), str(FILE)]) == 3
    assert "none.json" in capsys.readouterr().err


def test_an_unknown_subject_is_refused(capsys):
    assert main(["rule tokn"]) == 3
    assert "rule token" in capsys.readouterr().err
