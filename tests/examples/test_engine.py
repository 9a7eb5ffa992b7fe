"""The example is green as it stands, and red for each defect planted in it, by its own workflow."""

import shutil
from pathlib import Path

import pytest
import yaml
from pre_commit.clientlib import load_config, load_manifest

from spec_oracle.cli import main
from spec_oracle.report import AUDIT_FORMATS
from tests.strategies import at_night, by_day

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "engine"

REJECTS_MORE = """        weights = target_probs[b, length]
        if generator.random() < 0.02:
            tokens[b, 0] = generator.choice(len(weights), p=target_probs[b, 0] / target_probs[b, 0].sum())
            continue
"""
DEFECTS = {
    "redraws from the target": (
        "residual(target_probs[b, i], draft_probs[b, i])",
        "target_probs[b, i]",
        1,
        "✗ joint  total variation",
    ),
    "takes the bonus from the row before": (
        "weights = target_probs[b, length]",
        "weights = target_probs[b, length - 1]",
        1,
        "✗ joint  total variation",
    ),
    "rejects 2 % more": (
        "        weights = target_probs[b, length]\n",
        REJECTS_MORE,
        2,
        (
            "; most on 'equal': 4.0000 to 3.9400 tokens per call (-1.50 %); "
            "if intended, accept it with --update-baseline"
        ),
    ),
}


@pytest.fixture
def engine(tmp_path, monkeypatch):
    shutil.copytree(EXAMPLE, tmp_path / "engine")
    monkeypatch.chdir(tmp_path / "engine")
    return tmp_path / "engine" / "sampler.py"


@pytest.mark.parametrize(
    "skipped", [("shapes", "calls", "streams", "batch", "scale"), *at_night(((),))], ids=len
)
def test_the_example_is_green(engine, capfd, skipped):
    """At a few sizes: others take `shapes` half a minute. By day without the checks that take longest."""
    sizes = ("vocabularies=3,33", "lengths=1,2", "batches=1,3", "layouts=contiguous", "ids=int64")
    only = [word for axis in sizes for word in ("--only", axis)]
    skip = [word for check in skipped for word in ("--skip", check)]
    assert main(["audit", *only, *skip, "--budget", "8"]) == 0, capfd.readouterr().out


@pytest.mark.parametrize("defect", by_day(DEFECTS, ["redraws from the target", "rejects 2 % more"]))
def test_the_example_is_red_with_a_defect(engine, capfd, defect):
    right, wrong, code, told = DEFECTS[defect]
    text = engine.read_text()
    assert text.count(right) == 1
    engine.write_text(text.replace(right, wrong))
    short = ["--draft-length", "1"] if code == 1 else []  # what is kept of tokens per call is of length 3
    assert main(["audit", "--check", "inputs-kept", "--budget", "8", *short]) == code
    assert told in capfd.readouterr().out


def test_the_workflows_run_the_command_in_formats_that_exist():
    github = yaml.safe_load((EXAMPLE / ".github/workflows/lossless.yml").read_text())
    commands = [step["run"] for step in github["jobs"]["audit"]["steps"] if "run" in step]
    commands += yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text())["lossless"]["script"]
    audits = [command.split() for command in commands if command.startswith("spec-oracle")]
    assert [words[1] for words in audits] == ["audit", "audit"]
    assert all(words[words.index("--format") + 1] in AUDIT_FORMATS for words in audits)


def test_the_hook_is_one_that_pre_commit_accepts():
    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")
    (repo,) = load_config(EXAMPLE / ".pre-commit-config.yaml")["repos"]
    assert [used["id"] for used in repo["hooks"]] == [hook["id"]]
    assert hook["entry"] == "spec-oracle audit"
