"""A new user's first hour, from an empty folder: each command as it is typed, in a process of its own.

What the wheel holds is copied to a folder from which it is run; `.ci/smoke` runs README's five commands with
the wheel itself. Audits are cut to the output distribution of one call, which is what the hour is about.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spec_oracle.cli import main
from tests.strategies import at_night

ROOT = Path(__file__).parents[2]
SHORT = ("--check", "joint", "--draft-length", "2", "--budget", "8")
COMPILED = {"PYTHONDONTWRITEBYTECODE": None}
"""Commands keep what they compile, as they do at a user's: each would compile all modules anew."""

RULES = """
from dataclasses import dataclass

import verifiers
from verifiers.parts.walk import walk


@dataclass(frozen=True)
class Rule:
    def verify(self, drafts, decisions):
        return walk(drafts, decisions, lambda node, decisions: decisions.categorical(node.target))


def verify(draft_tokens, draft_probs, target_probs, generator):
    from spec_oracle.contracts.sampler import as_sampler

    return as_sampler(FAST)(draft_tokens, draft_probs, target_probs, generator)


FAST = verifiers.get("token")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with what the wheel holds, as it lies there."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(ROOT / package, folder / package)  # compiled modules, too: they are made on install
    return folder


@pytest.fixture
def typed(site, tmp_path, monkeypatch):
    """Return what runs a command line in the empty folder: exit code, stdout and stderr.

    ``settings`` are variables of the environment, None for one that is not set.
    """
    monkeypatch.chdir(tmp_path)

    def run(*words, module="spec_oracle", encoding="utf-8", folder=tmp_path, **settings):
        path = os.pathsep.join(map(str, (site, tmp_path)))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": encoding, **COMPILED, **settings}
        environment = {name: value for name, value in environment.items() if value is not None}
        found = subprocess.run(
            [sys.executable, "-m", module, *words],
            capture_output=True,
            cwd=folder,
            env=environment,
            check=False,
        )
        shown = found.stdout.decode(encoding), found.stderr.decode(encoding)
        assert "internal error" not in shown[1]
        assert "Traceback" not in "".join(shown)
        return found.returncode, *shown

    return run


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty folder, in this process: other tests show that the wheel audits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = ("my_rules", "same_uniform")  # other tests may have modules of these names, too
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in names:
        sys.modules.pop(name, None)


def five_commands():
    """Return the commands of README, as words."""
    text = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"## Five commands.*?```sh\n(.*?)```", text, re.DOTALL)[1]
    return [line.split() for line in block.splitlines()]


def test_five_commands_lead_to_a_verdict_on_a_flat_torch_sampler_right_and_wrong(typed, tmp_path):
    pytest.importorskip("torch")
    environment, installed, copied, *ours = five_commands()
    assert [environment[1:3], installed[0], copied[0]] == [["-m", "venv"], ".venv/bin/pip", "cp"]
    code = (ROOT / "docs/examples/flat_engine.py").read_text("utf-8").replace("rejection_sample", "verify")
    code = code.replace(
        "    residual = ", "    noise = noise.clamp(min=1e-10)\n    residual = "
    )  # as engines guard it
    assert code.count("clamp(min=1e-10)") == 1
    Path("my_sampler.py").write_text(code, "utf-8")
    (_, *init), (_, *audit) = ours
    status, shown, _ = typed(*init)
    assert status == 0
    assert "draft_token_ids      drafted tokens: batch.tokens" in shown
    assert "not known" not in shown
    assert shown.endswith(f"next: spec-oracle {' '.join(audit)}\n")

    short = ("--check", "joint", "--draft-length", "1", "--budget", "8")
    status, shown, _ = typed(*audit, *short, "-v")
    assert status == 0, shown
    assert "my_sampler_adapter:verify: lossless; " in shown
    assert "; rule token (identified)\n" in shown
    assert "my_sampler_adapter:verify_without_draft_probs: lossless" in shown
    assert "not seen to run" not in shown

    Path("my_sampler.py").write_text(code.replace("(target - draft_probs).clamp(min=0)", "target"), "utf-8")
    status, shown, _ = typed(*audit, *short)
    assert status == 1
    assert "smallest counterexample: 2 tokens, draft length 1" in shown
    first = "\n".join(shown.splitlines()[:24])
    assert "my_sampler_adapter:verify: lossy (proven)\n  ✗ joint  total variation 0" in first
    assert re.search(
        r"\n      tokens .*: probability .* expected, .* found"
        r"\n      in: my_sampler.py:8, from my_sampler_adapter.py:\d+\n",
        first,
    )
    assert (
        "\n  do: look at the test that accepts the first draft, or what is sampled after a rejection (my_"
        in first
    )
    assert "reproduce: spec-oracle audit my_sampler_adapter:verify --instance counterexamples/" in shown
    assert {path.name for path in tmp_path.iterdir() if path.name != "__pycache__"} == {
        *("my_sampler.py", "my_sampler_adapter.py", "spec-oracle.toml", "test_my_sampler_is_lossless.py"),
        "counterexamples",
    }


def test_the_test_that_is_written_fails_as_the_audit_does(typed):
    shutil.copy(ROOT / "docs/examples/same_uniform.py", "same_uniform.py")
    assert typed("init", "same_uniform:verify")[0] == 0
    quick = ("-q", "-p", "no:cacheprovider", "-k", "joint or inputs-kept")
    status, shown, _ = typed(*quick, "test_same_uniform_is_lossless.py", module="pytest")
    assert status == 1
    assert re.search("^1 failed, 1 passed, ", shown, re.MULTILINE)
    assert "same_uniform:verify: joint: failed: total variation 0.139 on instance 'peaked'" in shown


def test_a_rule_of_ones_own_is_compared_and_plotted(here, capsys):
    pytest.importorskip("matplotlib")
    Path("my_rules.py").write_text(RULES, "utf-8")
    assert main(["instance", "example", "--output", "toy.json"]) == 0
    compared = ("efficiency", "toy.json", "--verifier", "block", "--verifier", "my_rules:Rule")
    assert main([*compared, "--exact", "--plot", "toy.svg"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^block +20/9 .* 0\.00 %$", shown, re.MULTILINE)
    assert re.search(r"^my_rules:Rule +\d+/\d+ +0 ", shown, re.MULTILINE)
    assert "my_rules:Rule" in Path("toy.svg").read_text("utf-8")


def test_a_gate_has_a_baseline_and_fails_for_a_slower_rule(here, capsys):
    Path("my_rules.py").write_text(RULES, "utf-8")
    Path("spec-oracle.toml").write_text(
        'subjects = ["my_rules:verify"]\nbaseline = "baseline.json"\ndraft-length = 1\nbudget = 8\n', "utf-8"
    )
    gate = ("audit", "--check", "inputs-kept")
    assert main(gate) == 3
    told = capsys.readouterr().err
    assert told.count("\n") == 2
    assert "baseline.json: no such file; write the baseline first, with --update-baseline" in told
    assert main([*gate, "--update-baseline"]) == 0
    Path("my_rules.py").write_text(RULES.replace('get("token")', 'get("sample_and_match")'), "utf-8")
    assert main(gate) == 2
    shown = capsys.readouterr().out
    assert "1 lossless, 1 check failed (baseline): exit code 2" in shown
    assert "if intended, accept it with --update-baseline" in shown


@pytest.mark.parametrize("width", [60, *at_night(200)])
def test_a_terminal_shows_every_column_within_its_width(typed, site, tmp_path, width):
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": str(width), "TERM": "xterm"}
    command = [sys.executable, "-m", "spec_oracle", "audit", "token", "block", "--check", "inputs-kept"]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, cwd=tmp_path, env=environment):
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
    os.close(ours)
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).splitlines()
    assert max(map(len, lines)) <= width
    for column in ("verdict", "evidence", "TV", "detects TV", "tokens/call", "optimum", "headroom"):
        assert any(re.search(rf"(^|  ){column}(  |$)", line) for line in lines), column
    assert any(line.startswith("2 lossless: exit code 0;") for line in lines)


def read(terminal):
    """Return what was written to a terminal, nothing after its end."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.parametrize(("encoding", "dash"), [("ascii", "-"), *at_night(("cp1252", "–"))])
def test_a_report_is_whole_where_stdout_is_no_unicode(typed, tmp_path, encoding, dash):
    shutil.copy(ROOT / "docs/examples/same_uniform.py", "same_uniform.py")
    settings = {"PYTHONUTF8": "0", "HYPOTHESIS_STORAGE_DIRECTORY": None, "encoding": encoding}
    assert typed("init", "same_uniform:verify", **settings)[0] == 0
    status, shown, _ = typed("audit", *SHORT, **settings)
    assert status == 1
    assert "  x joint  " in shown
    assert f"\n  {dash} left out: " in shown
    assert "1 lossy, 1 check failed (joint): exit code 1" in shown
    assert {path.name for path in tmp_path.iterdir() if path.name != "__pycache__"} == {
        *("same_uniform.py", "spec-oracle.toml", "test_same_uniform_is_lossless.py", "counterexamples"),
    }


@pytest.fixture
def closed(tmp_path):
    """Return a folder that nothing can be written to, not even by root."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        yield Path("/proc")
        return
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    yield folder
    folder.chmod(0o755)


def test_a_folder_that_is_read_only_keeps_nothing_but_shows_the_verdict(typed, closed):
    shutil.copy(ROOT / "docs/examples/same_uniform.py", "same_uniform.py")
    status, shown, _ = typed("audit", "same_uniform:verify", *SHORT, folder=closed)
    assert status == 1
    assert "tokens 1,0,1: probability 1/4 expected, 0 found" in shown
    assert "not saved: counterexamples" in shown


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("init", "same_uniform:verify"), "run `spec-oracle init` in a folder of your own"),
        (("audit", "token", *SHORT, "--baseline", "b.json", "--update-baseline"), "may write to"),
        (("instance", "example", "--output", "toy.json"), "toy.json"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_in_one_line(closed, words, says, capsys, monkeypatch):
    shutil.copy(ROOT / "docs/examples/same_uniform.py", "same_uniform.py")
    monkeypatch.chdir(closed)
    assert main([*words]) == 3
    assert says in capsys.readouterr().err.splitlines()[-1]
