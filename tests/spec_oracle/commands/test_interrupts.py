"""Ctrl-C and SIGTERM end every command, with what it found before; `audit` is tested beside its processes."""

import json
import signal
import subprocess
import sys

import pytest

from spec_oracle.cli import main
from tests.strategies import at_night

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals of POSIX")

PLAN = """
task = "efficiency"
[axes]
verifier = ["token", "block"]
vocab_size = [3]
draft_length = [3]
instance = [{}]
""".format(", ".join(map(str, range(2000))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with inputs that take a moment, and such that take minutes."""
    here = tmp_path_factory.mktemp("interrupted")
    for name, sizes in {"small": (2, 1, 1), "large": (5, 5, 3)}.items():
        names = ("--vocab-size", "--draft-length", "--num-paths")
        given = [word for pair in zip(names, map(str, sizes), strict=True) for word in pair]
        assert main(["instance", "random", *given, "--output", str(here / f"{name}.json")]) == 0
    (here / "plan.toml").write_text(PLAN)
    return here


def ended(folder, number, first_line, *arguments):
    """Send a signal to a command after a line on stderr; return exit code, stdout and the rest of stderr."""
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    try:
        command = [sys.executable, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=folder, **pipes) as running:
            try:
                while first_line not in (line := running.stderr.readline()):
                    assert line, "it ended before"
                running.send_signal(number)
                out, errors = running.communicate(timeout=60)
            finally:
                running.kill()
    finally:
        signal.signal(signal.SIGINT, heard)
    return running.returncode, out, errors


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *at_night((signal.SIGINT, "efficiency small.json large.json --verifier traversal")),
        (signal.SIGTERM, "optimum small.json large.json"),
    ],
)
def test_findings_before_an_interrupt_are_written(folder, number, words):
    arguments = ("-m", "spec_oracle", *words.split(), "--format", "json", "--report", "found.json")
    code, out, errors = ended(folder, number, "large.json", *arguments)
    assert code == 2
    assert errors.splitlines()[-1] == "spec-oracle: interrupted"
    assert {one["file"] for one in json.loads(out)} == {"small.json"}
    assert (folder / "found.json").read_text() == out


def test_an_interrupted_sweep_keeps_its_rows_and_says_how_to_resume(folder):
    sweep = ("-m", "spec_oracle", "sweep", "plan.toml", "--jobs", "1")
    code, _, errors = ended(folder, signal.SIGTERM, "cells", *sweep)
    assert code == 2
    assert "plan.jsonl: what is computed is kept; the same command goes on" in errors
    assert 0 < len((folder / "plan.jsonl").read_text().splitlines()) < 4000


DEAF = """
import sys, time
from spec_oracle import cli
from spec_oracle.commands.options import Parser

def run(options):
    words = ["runs"]
    while True:
        try:
            while words:
                print(words.pop(), file=sys.stderr, flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass

def parser(_):
    made = Parser(prog="deaf")
    made.add_argument("word")
    made.set_defaults(run=run)
    return made

cli.GRACE = 0.2
sys.exit(cli.run_command(parser, ["now"]))
"""


def test_a_command_that_does_not_end_by_itself_is_ended(folder):
    code, _, errors = ended(folder, signal.SIGTERM, "runs", "-c", DEAF)
    assert (code, errors) == (2, "deaf: interrupted; it did not end in 0.2 s, and what it learnt is lost\n")
