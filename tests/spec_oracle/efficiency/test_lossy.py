"""A lossy rule is marked wherever its figures are shown: table, CSV, LaTeX, JSON and picture."""

import csv
import json
import sys

import pytest

from spec_oracle.cli import main
from spec_oracle.efficiency import sweeps
from spec_oracle.efficiency.trees import DraftTrees, FanOuts
from spec_oracle.toy import Instance

CODE = """
import numpy as np
from verifiers import Siblings, Verdict

class AcceptsAll:
    accepts = frozenset({Siblings.INDEPENDENT})

    def verify(self, drafts, decisions):
        node = np.zeros(len(drafts.tokens), dtype=int)
        following = decisions.categorical(drafts.target.row(node))
        return Verdict(node, following, drafts)
"""


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    """Return the name of an instance file, in a working directory with a lossy rule."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "lossy_rule.py").write_text(CODE)
    Instance.random(2, 2, num_paths=2, seed=2).save(tmp_path / "toy.json")
    yield "toy.json"
    sys.modules.pop("lossy_rule", None)


def shown(capsys, *more, tree="fan-outs 2"):
    rules = ["--verifier", "lossy_rule:AcceptsAll", "--verifier", "eagle"]
    assert main(["efficiency", "toy.json", "--tree", tree, *rules, *more]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "name"),
    [("text", "lossy_rule:AcceptsAll (lossy)"), ("latex", r"lossy\_rule:AcceptsAll (lossy)")],
)
def test_tables_mark_lossy_rules(capsys, form, name):
    out = shown(capsys, "--format", form)
    assert name in out
    assert out.count("(lossy)") == 1


def test_data_formats_have_a_lossless_field(capsys):
    rows = list(csv.DictReader(shown(capsys, "--format", "csv").splitlines()))
    assert [row["lossless"] for row in rows] == ["False", "True"]
    assert [one["lossless"] for one in json.loads(shown(capsys, "--format", "json"))] == [False, True]
    assert [one["lossless"] for one in json.loads(shown(capsys, "--exact", "--format", "json"))] == [
        False,
        True,
    ]


def test_plots_over_trees_mark_lossy_rules_and_name_the_levels(capsys, tmp_path):
    shown(capsys, "--plot", "found.svg", tree="fan-outs 2, 2")
    drawn = (tmp_path / "found.svg").read_text()
    assert "lossy_rule:AcceptsAll (lossy)" in drawn
    assert "levels of the tree  (fan-outs 2, 2)" in drawn
    assert "eagle (lossy)" not in drawn


def test_a_sweep_over_levels_ends_at_the_tree_itself():
    tree = DraftTrees(FanOuts.named("fan-outs 2, 2"))
    instance = Instance.random(2, 2, num_paths=2, seed=2)
    ((label, found),) = sweeps(instance, ("eagle", "traversal"), tree).items()
    assert label == "levels of the tree  (fan-outs 2, 2)"
    for sweep in found:
        assert sweep.at == (1, 2)
        assert [str(point.tree.shape) for point in sweep.points] == ["K = 2, L = 1", "fan-outs 2, 2"]
        assert sweep.block_efficiency[0] < sweep.block_efficiency[1] <= sweep.optimum[1] + 1e-12
