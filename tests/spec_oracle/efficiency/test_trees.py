"""Block efficiency of rules on draft trees: the figures of `design`, and on one path those of a path."""

import json

import pytest

import verifiers
from lab.design.combinations import COMBINATIONS
from lab.design.models import Models
from spec_oracle.cli import main
from spec_oracle.efficiency import efficiencies
from spec_oracle.efficiency.trees import DraftTrees, FanOuts
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance
from tests.spec_oracle.test_plain_words import require_plain
from verifiers import Siblings

TOY = Instance.random(3, 2, seed=2, agreement=0.3)
SHAPES = [FanOuts.named(name) for name in ("K = 2, L = 2", "delay 1, K = 2, L = 1", "fan-outs 2, 2")]
TAKE_TREES = [name for name in verifiers.names() if not verifiers.traits_of(verifiers.get(name)).paths_only]
TRIED = [
    (one, shape)
    for one in COMBINATIONS
    for shape in SHAPES
    if one.rule in TAKE_TREES and one.suits(shape, TOY.vocab_size)
]


def figures_of(rule, tree, instance=TOY, **how):
    (found,) = efficiencies("toy", instance, [rule], tree=tree, **how)
    return found


@pytest.mark.parametrize(
    ("one", "shape"), TRIED, ids=[f"{one.rule}, {one.drafting.value}, {shape}" for one, shape in TRIED]
)
def test_figures_equal_those_of_the_design_module(one, shape):
    law = Siblings(one.drafting.value)
    siblings = Siblings.PATHS if law is Siblings.INDEPENDENT and one.takes == "paths" else law
    found = figures_of(one.rule, DraftTrees(shape, siblings))
    assert found.block_efficiency == pytest.approx(float(one.figure(Models.of(TOY))(shape)), abs=1e-9)
    assert found.total_variation < 1e-12
    assert found.block_efficiency <= found.optimum + 1e-9


@pytest.mark.parametrize(
    ("rule", "path_rule"), [("block", "block"), ("traversal", "block"), ("k_seq", "token")]
)
def test_on_a_single_path_figures_are_those_of_the_path_rule(rule, path_rule):
    found = figures_of(rule, DraftTrees(FanOuts.named("K = 1, L = 2")), exact=True)
    (expected,) = efficiencies("toy", TOY, [path_rule], exact=True)
    assert found.accepted_length == expected.accepted_length
    assert found.block_efficiency == expected.block_efficiency
    assert found.optimum == expected.optima.single_path


@pytest.mark.parametrize(
    "name", ["K = 4, L = 2", "K = 1, L = 3", "delay 2, K = 3, L = 2", "fan-outs 3, 2", "fan-outs 2, 1, 2"]
)
def test_a_shape_is_found_by_its_name(name):
    assert str(FanOuts.named(name)) == name


@pytest.mark.parametrize("name", ["", "2, 2", "K = 0, L = 2", "fan-outs", "K = 2", "fan-outs 2; 2"])
def test_unknown_shapes_are_refused(name):
    with pytest.raises(InvalidInputError, match=r"^tree: expected a shape such as 'K = 4, L = 2'"):
        FanOuts.named(name)


@pytest.fixture
def toy(tmp_path):
    TOY.save(tmp_path / "toy.json")
    return str(tmp_path / "toy.json")


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "latex"])
def test_every_format_has_the_optimum_on_trees_beside_the_rules(toy, capsys, form):
    words = ["--verifier", "block", "--verifier", "eagle", "--tree", "K = 2, L = 2"]
    assert main(["efficiency", toy, *words, "--format", form]) == 0
    text = capsys.readouterr().out
    assert "eagle" in text.replace("\\", "")
    assert f"{figures_of('eagle', DraftTrees(FanOuts.named('K = 2, L = 2'))).optimum:.6g}" in text
    if form == "text":
        require_plain(text)
        assert "on draft trees (K = 2, L = 2, independent siblings)" in text


def test_without_names_all_rules_that_accept_the_siblings_are_measured(toy, capsys):
    words = ["--tree", "fan-outs 2, 2", "--siblings", "top-and-sampled"]
    assert main(["efficiency", toy, *words, "--format", "json"]) == 0
    found = {row["verifier"]: row for row in json.loads(capsys.readouterr().out)}
    assert [*found] == ["sample_and_match", "nss", "top_draft", "eagle", "univer"]
    best = found["univer"]
    assert best["tree"] == "fan-outs 2, 2, top-and-sampled siblings"
    assert best["single_path_optimum"] is None
    assert found["eagle"]["block_efficiency"] < best["block_efficiency"] <= best["tree_optimum"] + 1e-9


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--verifier", "univer", "--tree", "K = 2, L = 2"], "it accepts top-and-sampled"),
        (
            ["--verifier", "greedy_block", "--tree", "K = 2, L = 2"],
            "tree: greedy_block takes K paths of one length, and no other trees",
        ),
        (["--verifier", "eagle", "--tree", "two"], "tree: expected a shape such as"),
        (
            ["--verifier", "eagle", "--tree", "K = 2, L = 3"],
            "3 tokens deep, the instance has draft_length 2",
        ),
        (
            ["--verifier", "eagle", "--tree", "fan-outs 2, 2", "--siblings", "paths"],
            "siblings: paths part once, and fan-outs 2, 2",
        ),
        (["--tree", "K = 2, L = 1", "--plot", "plot.svg"], "one level leaves nothing to sweep"),
    ],
)
def test_errors_are_one_line(toy, capsys, words, says):
    assert main(["efficiency", toy, *words]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert says in error
    require_plain(error)
