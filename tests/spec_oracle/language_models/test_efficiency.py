"""The table of a pair of models, on toy instances in place of cuts."""

import json
from dataclasses import asdict

import pytest

import verifiers
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact import emission_law
from spec_oracle.language_models import efficiency as figures
from spec_oracle.optimum import ProvenBound
from spec_oracle.report import efficiency as report
from spec_oracle.toy import Instance

INSTANCES = [(f"prompt {seed}", Instance.random(3, 2, num_paths=2, seed=seed)) for seed in (1, 2)]


def table(names, *, optimum=True):
    rows = [figures.prompt_efficiencies(*each, names, optimum=optimum) for each in INSTANCES]
    return figures.pair_efficiency("a pair", names, [{"figures": map(asdict, figures)} for figures in rows])


def test_every_verifier_is_lossless_and_below_its_own_optimum():
    result = table(verifiers.names())
    assert [row.verifier for row in result.summaries()] == list(verifiers.names())
    for row in result.rows:
        assert row.total_variation < 1e-10
        assert 1 <= row.block_efficiency <= row.optimum + figures.TOLERANCE


def test_trees_that_are_too_large_are_named_in_the_table(monkeypatch):
    monkeypatch.setattr(figures, "MAX_PLAN_TUPLES", 80)
    monkeypatch.setattr(figures, "MAX_TEXT_LAW_TUPLES", 120)
    result = table(["block_transport", "greedy_multipath_carry", "greedy_block"])
    assert [row.verifier for row in result.summaries()] == ["greedy_multipath_carry", "greedy_block"]
    assert result.left_out[0].startswith("block_transport: ")
    unknown, known = (row.total_variation for row in result.rows[:2])
    assert unknown is None
    assert known < 1e-10
    for text in (report.PAIR_FORMATS["text"](result), report.PAIR_FORMATS["markdown"](result)):
        assert "not enumerated" in text
        assert "Left out: block_transport" in text
        assert "\n\ngreedy_multipath_carry, greedy_block: tokens per call and optimum are" in text


def test_more_than_the_optimum_is_an_error(monkeypatch):
    best = float(emission_law(verifiers.get("block"), INSTANCES[0][1]).block_efficiency)
    low = ProvenBound(best - 1e-6, best - 1e-6)
    monkeypatch.setattr(figures, "proven_bound", lambda *_args, **_options: low)
    with pytest.raises(SpecOracleError, match="block emits .* more than its proven bound"):
        table(["block"])


def test_formats_and_plot(tmp_path):
    for optimum in (True, False):
        result = table(["token", "top_draft"], optimum=optimum)
        rows = json.loads(report.PAIR_FORMATS["json"](result))
        assert [row["verifier"] for row in rows] == ["token", "top_draft"] * 2
        assert (rows[0]["optimum"] is None) != optimum
        assert ("Optimum" in report.PAIR_FORMATS["text"](result)) == optimum
        report.save_pair_plot(result, tmp_path / "plot.svg")
        assert "prompt 2" in (tmp_path / "plot.svg").read_text()
    with pytest.raises(InvalidInputError, match="--plot"):
        report.save_pair_plot(result, tmp_path / "plot.nothing")
