"""A tiny study runs from end to end, and its aggregate is right."""

import json
import statistics
import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest

import verifiers
from lab.studies import multipath
from lab.studies.aggregate import losses, mean_by_level, summary
from lab.studies.document import document
from lab.studies.measure import BALANCED, GAP, OURS, RULES, Record
from lab.studies.toys import CONCENTRATIONS, QUALITIES, Grid, Toy, keys
from spec_oracle.exact import emission_law
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.sweeps import rows_for
from spec_oracle.toy import Instance
from tests.strategies import at_night

TINY = Grid(
    vocab_sizes=(2,),
    draft_lengths=(1, 2),
    num_paths=(2,),
    qualities=("opposed", "fair"),
    seeds=1,
    max_tuples=16,
    larger=((3, 2, 2),),
)


OF_DAY = replace(TINY, draft_lengths=(2,), qualities=("fair",))
"""A draft of a usual quality, of the length at which something is carried over."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    with rows_for(tmp_path_factory.mktemp("study") / "study.md", multipath.plan(TINY), jobs=1) as found:
        return found


@pytest.fixture(scope="module")
def study(rows):
    return multipath.study(TINY, rows)


@pytest.mark.nightly
def test_results_do_not_depend_on_the_number_of_processes(rows, tmp_path):
    with rows_for(tmp_path / "study.md", multipath.plan(TINY), jobs=2) as found:
        assert found == rows


@pytest.mark.nightly
def test_the_summary_follows_from_the_laws(study):
    records, *_ = study
    for rule in (OURS, "traversal"):
        shortfalls = []
        for length in (1, 2):
            for kind, agreement in (QUALITIES["opposed"], QUALITIES["fair"]):
                for concentration in CONCENTRATIONS.values():
                    instance = Instance.random(
                        2, length, num_paths=2, kind=kind, concentration=concentration, agreement=agreement
                    ).rounded(64)
                    efficiency = emission_law(verifiers.get(rule), instance).block_efficiency
                    shortfalls.append(1 - efficiency / multi_path_optimum(instance).value)
        found = summary(records, rule, RULES, OURS)
        assert found.toys == len(shortfalls) == 8
        assert found.mean == pytest.approx(statistics.mean(shortfalls), abs=1e-12)
        assert found.median == pytest.approx(statistics.median(shortfalls), abs=1e-12)
        assert found.worst == pytest.approx(max(shortfalls), abs=1e-12)
        by_length = mean_by_level(records, "draft length L", rule)
        assert by_length["2"] == pytest.approx(statistics.mean(shortfalls[4:]), abs=1e-12)


@pytest.mark.parametrize("grid", [OF_DAY, *at_night(TINY)], ids=["by day", "at night"])
def test_every_rule_is_lossless_and_below_the_optimum(grid, tmp_path):
    with rows_for(tmp_path / "study.md", multipath.plan(grid), jobs=1) as rows:
        records, larger, carried = multipath.study(grid, rows)
    assert records
    for record in records:
        assert set(record.shortfall) == set(RULES)
        assert max(record.total_variation.values()) <= 1e-12
        assert min(record.shortfall.values()) >= -1e-9
    assert len(larger) == len(carried) == 2 * len(grid.qualities)
    assert max(record.total_variation for record in carried) <= 1e-12
    for record in larger:
        enumerated = emission_law(verifiers.get(OURS), record.toy.instance)
        assert record.optimum * (1 - record.shortfall[OURS]) == pytest.approx(
            enumerated.block_efficiency, abs=1e-12
        )
        assert 0 <= record.gap <= GAP
        assert set(record.shortfall) == {*RULES} - {BALANCED, "traversal", "greedy_multipath_block"}
        assert min(record.shortfall.values()) >= -1e-9


def test_losses_name_the_smallest_toy_and_the_largest_gap():
    grid = Grid(vocab_sizes=(2,), draft_lengths=(1, 2), num_paths=(2,), seeds=1)
    small, *_, large = (Toy.at(key) for key in keys(grid))
    records = [
        Record(large, 2.0, {"ours": 0.3, "rival": 0.1, "tied": 0.3}, {}),
        Record(small, 2.0, {"ours": 0.2, "rival": 0.1, "tied": 0.2}, {}),
    ]
    (found,) = losses(records, "ours", ("rival", "tied"))
    assert (found.rival, found.records[0].toy, found.largest.toy) == ("rival", small, large)


def test_source_makes_the_toy():
    *_, toy = (Toy.at(key) for key in keys(TINY))
    again = eval(toy.source, {"Instance": Instance})
    assert again.to_json() == toy.instance.to_json()


@pytest.mark.nightly
def test_the_command_goes_on_and_writes_the_document_and_its_plots(rows, tmp_path, monkeypatch, capsys):
    output, kept = tmp_path / "study.md", tmp_path / "study.md.rows"
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows[:-2]) + '{"toy": [')
    monkeypatch.setattr(multipath, "Grid", Mock(max_tuples=16, return_value=TINY))
    monkeypatch.setattr(sys, "argv", ["study", "--output", str(output), "--plots", str(tmp_path), "--jobs=2"])
    multipath.main()
    text = output.read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    records, larger, carried = multipath.study(TINY, rows)
    names = ("distribution", "factors", "carried")
    plots = {name: f"study-multipath-{name}.png" for name in names}
    assert text == document(TINY, records, larger, carried, plots)
    assert not kept.exists()
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.partition("](")[2].rstrip(")")).stat().st_size > 0
