"""Time of audits and tests beside an earlier commit: ``python -m lab.benchmarks.audits [COMMIT [COMMIT]]``.

The earlier one is that before the house was rebuilt unless it is given. Both commits are checked out into a
temporary folder and audit the same code in turns, each in a process of its own, in the environment of this
one; then each runs its tests on two cores. Times of audits are of wall clock, as their budgets are, so that
the machine must be idle; those of first verdicts and of tests are of processors, all processes together.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from lab.benchmarks.measure import hardware, table

ROOT = Path(__file__).parents[2]
LOOPS = '''\
"""The token rule as loops over requests and positions."""

import numpy as np


def verify(draft_tokens, draft_probs, target_probs, generator):
    batch, length = draft_tokens.shape
    tokens, accepted = np.full((batch, length + 1), -1), np.zeros(batch, int)
    for request in range(batch):
        for position in range(length + 1):
            row = target_probs[request, position]
            if position < length:
                token, draft = draft_tokens[request, position], draft_probs[request, position]
                if generator.random() * draft[token] < row[token]:
                    tokens[request, position] = token
                    accepted[request] += 1
                    continue
                row = np.maximum(row - draft, 0)
            tokens[request, position] = generator.choice(len(row), p=row / row.sum())
            break
    return tokens, accepted
'''
VLLM = '''\
"""The Triton kernel of vLLM V1 in its interpreter; its adapter has moved once."""

from importlib import import_module
from importlib.util import find_spec

room = "third_party" if find_spec("spec_oracle.third_party") else "adapters"
verify = import_module(f"spec_oracle.{room}.samplers.vllm_v1").load(reads_draft=True)
'''
# What is audited: the words after `audit`, and the folder of the checkout to run them in.
SUBJECTS = {
    "flat torch, generators of requests": (
        ("flat_adapter:verify", "--array", "torch"),
        "docs/examples",
    ),
    "numpy, loops over requests": (("loops:verify",), "."),
    "everything installed": ((), "."),
    "vLLM V1": (("vllm_v1:verify", "--array", "torch"), "."),
}
BEFORE = "0eca7f77"


@contextmanager
def checkout(commit, folder):
    """Check out ``commit`` below ``folder``, and give the path."""
    path = Path(folder) / commit
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, commit], cwd=ROOT, check=True)
    try:
        for engines in ROOT.glob(".engines"):
            (path / ".engines").symlink_to(engines)
        (path / "loops.py").write_text(LOOPS, "utf-8")
        (path / "vllm_v1.py").write_text(VLLM, "utf-8")
        yield path
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", path], cwd=ROOT, check=True)


def _importing(*folders):
    """Return the environment in which modules are looked for in these folders first."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def audited(words, folder, path, report):
    """Audit by the code at ``path``; return the seconds that it took, and the exit code."""
    command = [sys.executable, "-m", "spec_oracle", "audit", *words, "--format", "json", "--output", report]
    started = time.monotonic()
    code = subprocess.run(
        command, cwd=path / folder, env=_importing(path, path / folder), capture_output=True, check=False
    )
    return time.monotonic() - started, code.returncode


def first_verdict(words, folder, path):
    """Return the seconds of processor time, of all processes, until the first check has its result."""
    command = [sys.executable, "-m", "spec_oracle", "audit", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, cwd=path / folder, env=_importing(path, path / folder), text=True, **pipes
    ) as process:
        next(line for line in process.stderr if "joint" in line)
        own = psutil.Process(process.pid)
        spent = [one.cpu_times() for one in (own, *own.children(recursive=True))]
        process.terminate()
    return sum(one.user + one.system for one in spent)


def tested(path):
    """Run the tests of the commit at ``path``; return seconds of wall clock, of processors, and the end."""
    quiet, spread = ("-q", "-p", "no:cacheprovider"), ("-n", "2", "--dist", "worksteal")
    command = [sys.executable, "-m", "pytest", *quiet, *spread]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    pipes = {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=path, env=_importing(path), check=False, **pipes)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, spent, done.stdout.strip().rpartition("\n")[2]


def verdicts(report):
    """Return how many subjects have which verdict, in words."""
    found = [one["verdict"] for one in json.loads(Path(report).read_text("utf-8"))["subjects"]]
    return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in sorted(set(found)))


def rows(commits, subjects):
    """Yield a row of the table for each subject, as they are measured."""
    with tempfile.TemporaryDirectory() as folder:
        for name in subjects:
            words, place = SUBJECTS[name]
            found = []
            for commit in commits:
                with checkout(commit, folder) as path:
                    report = Path(folder) / "report.json"
                    seconds, code = audited(words, place, path, report)
                    found.append((seconds, f"{verdicts(report)}; exit {code}"))
            (old, before), (new, after) = found
            yield name, old, new, new / old, before, after


def first_rows(commits, subjects, rounds=3):
    """Yield a row for each subject: the least time until the first verdict, the commits by turns."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [stack.enter_context(checkout(commit, folder)) for commit in commits]
        for name in subjects:
            turns = [[first_verdict(*SUBJECTS[name], path) for path in paths] for _ in range(rounds)]
            old, new = map(min, zip(*turns, strict=True))
            yield name, old, new, new / old


def suite_rows(commits):
    """Yield a row for the tests of each commit."""
    with tempfile.TemporaryDirectory() as folder:
        for commit in commits:
            with checkout(commit, folder) as path:
                yield _short(commit), *tested(path)


def _short(commit):
    command = ["git", "rev-parse", "--short=8", commit]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def lines(commits=(BEFORE, "HEAD"), subjects=tuple(SUBJECTS)[:-1]):
    """Yield the section; the last subject is left out, whose audits take many minutes."""
    short = [_short(commit) for commit in commits]
    yield "## Audits at default options"
    yield ""
    yield f"Seconds of wall clock on {os.cpu_count()} cores, each audited once; commit {short[0]} before,"
    yield f"{short[1]} after."
    yield ""
    yield from table(
        ("audit of", "before", "after", "ratio", "verdicts before", "after"), rows(commits, subjects)
    )
    yield ""
    yield "Seconds of processor time, of all processes, until the first check has its result; least of three."
    yield "Of these, torch's import takes more than one."
    yield ""
    yield from table(("audit of", "before", "after", "ratio"), first_rows(commits, tuple(SUBJECTS)[:2]))
    yield ""
    yield "## Tests"
    yield ""
    yield "What `make test` runs, on two cores, once: seconds of wall clock, and of processor time."
    yield ""
    yield from table(("commit", "wall clock", "processors", "end"), suite_rows(commits))


def main():
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.audits", description=__doc__.split(":")[0]
    )
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="the earlier one, then the later: HEAD")
    given = parser.parse_args().commits
    before, after = given if len(given) > 1 else (*(given or [BEFORE]), "HEAD")
    print(f"On {hardware()}.\n")
    for line in lines((before, after), SUBJECTS):
        print(line, flush=True)


if __name__ == "__main__":
    main()
