"""Sweeps: the same bytes however the work is spread, and whatever cut it off."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.sweeps import Plan, compute, run, seed_of

CELLS = Plan("tests.spec_oracle.sweep_tasks:square", {"x": list(range(50)), "y": list(range(50))})
PLAN = """
task = "efficiency"
[axes]
verifier = ["token", "block"]
vocab_size = [2, 3]
instance = [0, 1]
[fixed]
draft_length = 2
optimum = true
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    output = tmp_path_factory.mktemp("plain") / "cells.jsonl"
    run(CELLS, output)
    return output.read_bytes()


def test_cells_have_seeds_of_their_own(expected):
    rows = [json.loads(line) for line in expected.splitlines()]
    assert [(row["x"], row["y"]) for row in rows] == [(x, y) for x in range(50) for y in range(50)]
    assert len({row["seed"] for row in rows}) == len(CELLS) == 2_500
    assert rows[51]["square"] == 2
    turned = Plan(CELLS.task, dict(reversed(CELLS.axes.items())))
    assert {*map(seed_of, turned.cells())} == {*map(seed_of, CELLS.cells())}


def test_two_processes_write_the_same_bytes(expected, tmp_path):
    run(CELLS, tmp_path / "cells.jsonl", jobs=2)
    assert (tmp_path / "cells.jsonl").read_bytes() == expected


@pytest.mark.parametrize("kept", [0, 1, 1_253, 2_500])
@pytest.mark.parametrize("torn", [b"", b'{"x": 50, "y"'])
def test_a_run_that_was_cut_off_goes_on_where_it_ended(expected, tmp_path, kept, torn):
    lines = expected.splitlines(keepends=True)[:kept]
    output = tmp_path / "cells.jsonl"
    output.write_bytes(b"".join(lines) + (torn if kept < len(CELLS) else b""))
    run(CELLS, output)
    assert output.read_bytes() == expected


def test_a_killed_process_loses_nothing(expected, tmp_path):
    output = tmp_path / "cells.jsonl"
    plan = tmp_path / "plan.toml"
    axes = json.dumps(list(range(50)))
    plan.write_text(f'task = "{CELLS.task}"\n[axes]\nx = {axes}\ny = {axes}\n')
    command = [sys.executable, "-m", "spec_oracle.cli", "sweep", plan, "--output", output, "--jobs", "1"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": "."}, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(output.read_bytes()) > 0
    run(CELLS, output)
    assert output.read_bytes() == expected


@pytest.mark.nightly
def test_a_process_that_joblib_renews_is_no_error_where_warnings_are(tmp_path):
    # joblib warns of it in the thread that hands out work, if psutil is there: an error would end that, and
    # never the run.
    import psutil  # noqa: F401

    plan = tmp_path / "plan.toml"
    plan.write_text('task = "tests.spec_oracle.sweep_tasks:growing"\n[axes]\nx = [0, 1, 2, 3]\n')
    command = [
        sys.executable,
        "-W",
        "error::UserWarning",
        "-m",
        "spec_oracle.cli",
        "sweep",
        plan,
        "--jobs",
        "2",
    ]
    output = tmp_path / "cells.jsonl"
    environment = {**os.environ, "PYTHONPATH": "."}
    subprocess.run([*command, "--output", output], env=environment, check=True, timeout=60)
    assert [json.loads(line)["x"] for line in output.read_text().splitlines()] == [*range(4)]


def test_the_command_line_writes_a_row_for_each_combination(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    output = tmp_path / "found.jsonl"
    assert main(["sweep", str(tmp_path / "plan.toml"), "--output", str(output), "--jobs", "1"]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 8
    assert all(row["total_variation"] < 1e-12 for row in rows)
    assert all(row["block_efficiency"] <= row["optimum"] + 1e-12 for row in rows)
    block = [row["block_efficiency"] - row["optimum"] for row in rows if row["verifier"] == "block"]
    assert block == pytest.approx([0] * 4)


def test_an_audit_is_a_task():
    plan = Plan("audit", {"subject": ["token", "no-such"], "checks": [["length"]], "draft_length": [1]})
    good, bad = (compute("audit", cell) for cell in plan.cells())
    assert (good["verdict"], good["evidence"]) == ("lossless", "exact")
    assert "no-such" in bad["error"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = 1", "task: expected one of audit, efficiency, prompt, or module:function, got 1"),
        ('task = "efficiency"', "axes: expected a table of lists"),
        ('task = "efficiency"\n[axes]\nx = 3', "axes.x: expected a list"),
        ('task = "efficiency"\n[axes]\nx = [1, 1]', "axes.x: a value comes twice"),
        ('task = "efficiency"\nsizes = 3', "unknown ['sizes']"),
        ("task = ", "Invalid value"),
        ('task = "audit"\n[axes]\nsubjects = ["token"]', "missing a required argument: 'subject'"),
        ('task = "audit"\naxes = 3', "axes: expected a table"),
    ],
)
def test_plans_that_make_no_sense_are_refused(tmp_path, text, message):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(InvalidInputError) as error:
        Plan.load(tmp_path / "plan.toml")
    assert message in str(error.value)


def test_refused_cells_are_counted_and_fail_the_run(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN.replace('"block"', '"blok"'))
    assert main(["sweep", str(tmp_path / "plan.toml"), "--jobs", "1"]) == 3
    assert '8 cells, 4 of them refused: see "error"' in capsys.readouterr().err


def test_another_sweeps_file_is_left_alone(tmp_path):
    output = tmp_path / "cells.jsonl"
    output.write_text('{"x": 7}\n')
    with pytest.raises(InvalidInputError, match="line 1 is not of this sweep"):
        run(CELLS, output)
    assert output.read_text() == '{"x": 7}\n'


def test_a_task_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(InvalidInputError, match="task: No module named"):
        run(Plan("no.such:task", {"x": [1]}), tmp_path / "cells.jsonl")
