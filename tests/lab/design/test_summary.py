"""The best combination of a budget on toys with known answers."""

import json

import pytest

from lab.design import Costs, design, prompt_designs
from lab.design import figures as module
from lab.design.bounds import Bound
from lab.design.plot import save_design_plot
from lab.design.report import FORMATS, conclusions
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.toy import Instance


def designed(instances, budgets, costs=None, rules=None):
    cells = [
        {"prompt": str(number), **json.loads(json.dumps(prompt_designs(str(number), one, budgets, rules)))}
        for number, one in enumerate(instances)
    ]
    return design("toys", cells, instances[0].draft_length, costs or Costs())


def test_equal_models_want_one_long_path():
    """Every draft is accepted, so 3 tokens on one path give 4 tokens a call, and no tree gives more."""
    result = designed([Instance.random(2, 3, kind="equal", seed=seed) for seed in (1, 2)], [3])
    best = result.best(3)[0]
    assert best.mean == pytest.approx(4)
    assert best.shape == "K = 1, L = 3"
    assert best.headroom == pytest.approx(0)


def test_a_confident_wrong_draft_wants_a_second_sibling():
    """With q = (0.9, 0.1, 0) and p = (0, 1, 0) two distinct drafts are worth 2 tokens per call."""
    wrong = Instance.context_free([0, 1, 0], ["9/10", "1/10", 0], draft_length=1)
    rows = {(row.rule, row.drafting): row for row in designed([wrong], [2]).best(2)}
    assert rows["nss", "likeliest under the draft"].mean == pytest.approx(2)
    assert rows["recursive_rejection_distinct", "without replacement"].mean == pytest.approx(2)
    assert rows["global_resolution", "independent"].mean == pytest.approx(1 + 1 - 0.9**2)
    assert rows["block", "independent"].mean == pytest.approx(1.1)


def test_costs_choose_smaller_trees():
    """A level that costs as much as a target call is worth it only if its draft is always accepted."""
    toy = Instance.random(3, 3, seed=5, agreement=0.5)
    free = designed([toy], [3]).best(3)[0]
    dear = designed([toy], [3], Costs(draft=1.0)).best(3)[0]
    assert free.shape != dear.shape
    assert dear.shape in {"K = 3, L = 1", "3 nodes"}
    assert dear.throughput == pytest.approx(dear.mean / 2)


def test_no_combination_exceeds_its_bound_and_every_kind_of_toy_can_be_done():
    for kind in ("sparse", "disjoint", "point-mass"):
        for row in designed([Instance.random(3, 2, kind=kind, seed=3)], [2, 4]).rows:
            assert row.bound is None or row.mean <= row.bound + 1e-9


def test_more_than_the_bound_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "bound_for", lambda *_: Bound(1.0, None))
    with pytest.raises(SpecOracleError, match="token on K = 1, L = 2 emits .* more than its bound 1"):
        designed([Instance.random(3, 2, seed=1)], [2])


def test_instances_of_different_sizes_are_refused():
    with pytest.raises(InvalidInputError, match="same vocabulary size"):
        designed([Instance.random(3, 2, seed=1), Instance.random(2, 2, seed=1)], [2])


def test_named_rules_only():
    rows = designed([Instance.random(3, 2, seed=1)], [2], rules=["block", "nss"]).rows
    assert {row.rule for row in rows} == {"block", "nss"}


def test_fixed_trees_are_chosen_on_the_other_prompts():
    """On each of two prompts the fixed ranks are the best ones of the other."""
    one, other = (
        Instance.context_free(row, ["5/8", "3/8"], draft_length=1) for row in (["1", "0"], ["0", "1"])
    )
    apart = {row.drafting: row for row in designed([one, other], [1]).best(1) if row.rule == "nss"}
    assert apart["fixed ranks"].mean == pytest.approx(1)
    assert apart["likeliest under the draft"].mean == pytest.approx(1.5)


def test_formats_and_plot(tmp_path):
    result = designed(
        [Instance.random(3, 2, seed=seed, num_paths=2) for seed in (1, 2)], [2, 8], Costs(0.1, 0.01)
    )
    rows = json.loads(FORMATS["json"](result))
    assert {row["budget"] for row in rows} == {2, 8}
    assert {"rule", "drafting", "shape", "block_efficiency", "bound", "throughput", "ours"} <= rows[0].keys()
    text = FORMATS["text"](result)
    assert (
        "Left out: paths longer than the 2 tokens of a cut: K = 1, L = 8, K = 2, L = 4 at 8 tokens." in text
    )
    assert "0.1 for each level of the tree, 0.01 for each drafted token" in text
    for budget in result.budgets:
        for line in conclusions(result, budget):
            assert line in text
            assert ("it is ours" in line) == ("The best published combination" in line)
    save_design_plot(result, tmp_path / "plot.svg")
    assert "drafted tokens" in (tmp_path / "plot.svg").read_text()
