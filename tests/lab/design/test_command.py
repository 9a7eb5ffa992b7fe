"""`python -m lab.design` on toy files, and on a pair of tiny language models."""

import json
import sys

import pytest

from lab.design.__main__ import main
from spec_oracle.toy import Instance
from tests.spec_oracle.language_models.test_command import model
from tests.spec_oracle.test_plain_words import require_plain

__all__ = ["model"]


@pytest.fixture
def toys(tmp_path):
    files = [tmp_path / f"toy{seed}.json" for seed in (1, 2)]
    for seed, file in enumerate(files):
        Instance.random(3, 2, seed=seed, agreement=0.3).save(file)
    return [str(file) for file in files]


def test_a_page_with_a_table_a_budget_a_winner_and_a_plot(toys, tmp_path, capsys):
    plot, page = tmp_path / "plot.svg", tmp_path / "page.md"
    words = ["--format", "markdown", "--output", str(page), "--plot", str(plot)]
    assert main([*toys, "--budget", "4", "2", *words]) == 0
    text = page.read_text()
    require_plain(text)
    assert text.index("Best with 2 drafted tokens: ") < text.index("Best with 4 drafted tokens: ")
    assert text.count("| rule | drafts | tree |") == 2
    assert "lookahead_multipath_block | independent" in text
    assert plot.exists()
    assert text.startswith("# Which draft tree, which rule\n\nMade by `python -m lab.design ")
    assert "](plot.svg)" in text
    assert "toy1.json" in capsys.readouterr().err


def test_costs_are_shown_and_rank(toys, capsys):
    assert main([*toys, "--budget", "4", "--draft-cost", "0.5"]) == 0
    text = capsys.readouterr().out
    require_plain(text)
    assert "throughput" in text
    assert main([*toys, "--budget", "4", "--draft-cost", "0.5", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found = [row["throughput"] for row in rows]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "4"], "expected either instance files or --prompts"),
        (["nothing.json", "--budget", "4"], "cannot be read"),
        (["TOY", "--budget", "4", "--verifier", "greedy_block"], "cannot be compared here"),
    ],
)
def test_errors_are_one_line(toys, capsys, arguments, message):
    assert main([*(toys[0] if one == "TOY" else one for one in arguments)]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--budget", "0"], ["--budget", "4", "--draft-cost", "-1"], []])
def test_usage_errors_exit_with_3(toys, wrong):
    with pytest.raises(SystemExit, match="3"):
        main([toys[0], *wrong])


def test_two_language_models(model, tmp_path):
    prompts, output = tmp_path / "prompts.txt", tmp_path / "rows.json"
    prompts.write_text("a b\nc\n")
    pair = ["--target", model, "--draft", f"{model}:layers=1", "--top-k", "3", "--depth", "2", "--jobs", "1"]
    words = ["--budget", "3", "--format", "json", "--output", str(output)]
    assert main(["--prompts", str(prompts), *pair, *words]) == 0
    rows = json.loads(output.read_text())
    assert {row["budget"] for row in rows} == {3}
    assert all(row["least"] <= row["block_efficiency"] <= row["most"] for row in rows)
    assert not (tmp_path / "rows.json.rows").exists()


OWN = """
import numpy as np
import verifiers
from verifiers import Verdict

def trees():
    return verifiers.get("traversal")

def paths():
    return verifiers.get("greedy_multipath_block")

class Lossy:
    accepts = {"independent"}

    def verify(self, drafts, decisions):
        node = np.zeros(len(drafts.tokens), dtype=int)
        return Verdict(node, decisions.categorical(drafts.target.row(node)), drafts)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Put rules of a user into the working directory."""
    (tmp_path / "own_design.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("own_design", None)


@pytest.mark.parametrize(
    ("mine", "built_in"), [("trees", "traversal"), ("paths", "greedy_multipath_block")], ids=str
)
def test_a_rule_of_the_user_has_the_figures_of_the_same_rule_built_in(own, toys, capsys, mine, built_in):
    names = ["--verifier", f"own_design:{mine}", "--verifier", built_in]
    assert main([toys[0], "--budget", "4", *names, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found = {(one["rule"], one["drafting"], one["shape"]): one["block_efficiency"] for one in rows}
    shared = [key[1:] for key in found if key[0] == built_in and (f"own_design:{mine}", *key[1:]) in found]
    assert shared
    for key in shared:
        assert found[f"own_design:{mine}", *key] == pytest.approx(found[built_in, *key], abs=1e-9)


def test_a_lossy_rule_of_the_user_is_refused(own, toys, capsys):
    assert main([toys[0], "--budget", "2", "--verifier", "own_design:Lossy"]) == 3
    assert "own_design:Lossy is lossy (total variation 0." in capsys.readouterr().err
