"""Every check bites: a small kill matrix by default, all specimens in the nightly run."""

import json
from dataclasses import replace

import pytest

from lab.kill_matrix import columns, matrix
from lab.kill_matrix.columns import columns_of
from lab.kill_matrix.matrix import kill_matrix
from lab.kill_matrix.report import FORMATS
from lab.specimens.__main__ import main
from lab.specimens.registry import specimens
from spec_oracle.audit import effort
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.suite import SUITES
from spec_oracle.errors import SpecOracleError
from spec_oracle.statistics import DEFAULT_ALPHA
from tests.strategies import by_day
from verifiers import traits_of

ONE_PER_CHECK = {
    "A6": ("last-draft-unverified", "joint"),
    "F4": ("block-option-ignored", "length"),
    "C9": ("generator-not-advanced", "calls"),
    "D1": ("top-2-draft-reports-raw-q", "draft-law"),
    "C6": ("accept-from-global-generator", "streams"),
    "C10": ("seed-of-another-request", "batch"),
    "B11": ("rows-times-positions", "batch"),
    "A8": ("zero-uniform-accepts", "bad-input"),
    "B7": ("empty-residual-yields-id-0", "bad-input"),
    "B9": ("residual-in-callers-memory", "inputs-kept"),
    "F3": ("offsets-overflow", "scale"),
    "E7": ("rollback-one-too-far", "calls"),
    "H9": ("budget-counted-in-calls", "calls"),
    "H10": ("metric-counts-past-stop", "length"),
}


@pytest.mark.usefixtures("work_clock")
@pytest.mark.parametrize(("name", "check"), ONE_PER_CHECK.values(), ids=ONE_PER_CHECK)
def test_a_defect_is_killed_by_its_check(name, check, monkeypatch):
    """Its other columns are run at night, and engines for longer."""
    monkeypatch.setattr(columns, "FINDING_SECONDS", 1.0)
    assert check in specimens()[name].detected_by
    assert columns_of(specimens()[name], DEFAULT_ALPHA, 0)[check]().status is Status.FAILED


RULES = [found for found in specimens().values() if found.kind == "rule"]
ON_PATHS = [found for found in RULES if traits_of(found.rule).paths_only]
ON_TREES = [found for found in RULES if found not in ON_PATHS]
CONTROLS = [found.name for found in ON_TREES if found.is_control]
SLOW = "chain-greedy-block-without-carry"
"""Killed at night: by day `calls` kills a rule for trees."""
ONE_OF_EACH = {found.detected_by: found.name for found in ON_PATHS}
"""For each check a rule for paths that it must kill, and a control; test_audit.py audits all of them."""


@pytest.mark.parametrize("name", by_day([found.name for found in ON_PATHS], {*ONE_OF_EACH.values()} - {SLOW}))
def test_a_rule_for_paths_is_judged_by_enumeration(name, monkeypatch):
    """No check draws, and each has a rule that it must kill."""
    monkeypatch.setattr(columns, "FEW_SHAPES", 3)
    found = specimens()[name]
    (row,) = kill_matrix([found]).rows
    assert row.as_expected
    assert not row.missed
    assert row.results["joint"].measured.draws == 0


@pytest.mark.parametrize(
    ("rules", "of_paths"), [(ON_PATHS, set()), (ON_TREES, {"bad-input"})], ids=["paths", "trees"]
)
def test_every_check_that_is_asked_of_rules_has_one_to_kill(rules, of_paths):
    """Broken input is verified on paths, as samplers are called."""
    asked = {*SUITES["rule"]}
    assert asked - of_paths == {check for found in rules for check in found.detected_by}


@pytest.mark.parametrize(
    ("name", "check"), [(found.name, check) for found in ON_TREES for check in found.detected_by]
)
def test_a_defect_of_a_rule_for_trees_is_killed_by_its_check(name, check):
    """Its other columns are run at night."""
    assert columns_of(specimens()[name], DEFAULT_ALPHA, 0)[check]().status is Status.FAILED


@pytest.mark.parametrize(
    "name",
    by_day(CONTROLS, ["tree-certain-siblings"]),
)
def test_a_right_rule_for_trees_passes(name, monkeypatch):
    """At few shapes: right code must pass at any. By day one, with the checks of a rule of ours."""
    monkeypatch.setattr(columns, "FEW_SHAPES", 3)
    (row,) = kill_matrix([specimens()[name]]).rows
    assert row.detected_by == ()
    assert all(row.results[check].status is not Status.INCONCLUSIVE for check in columns.ASKED)


@pytest.mark.nightly
@pytest.mark.usefixtures("less_effort")
def test_a_control_passes(monkeypatch):
    """Right code must pass at any number of samples. Others are run at night."""
    monkeypatch.setattr(columns, "FEW_SHAPES", 3)
    monkeypatch.setattr(columns, "YARDSTICK_DRAWS", 500)
    monkeypatch.setattr(effort, "SAMPLER_FOLLOW_UPS", 0)
    (row,) = kill_matrix([specimens()["recycled-uniform"]]).rows
    assert row.detected_by == ()


def test_the_first_token_of_an_engine_that_cannot_be_traced_is_sampled(monkeypatch):
    monkeypatch.setattr(columns, "YARDSTICK_DRAWS", 500)
    found = columns_of(specimens()["verifies-by-system-entropy"], DEFAULT_ALPHA, 0)[columns.YARDSTICK]()
    assert found.status is not Status.INCONCLUSIVE
    assert found.measured.draws == 500


def test_an_error_of_ours_says_where(monkeypatch, capsys):
    def broken():
        raise SpecOracleError("no law")

    monkeypatch.setattr(matrix, "columns_of", lambda *_: {"joint": broken})
    assert main(["system", "--jobs", "1"]) == 3
    assert "no law, in the check 'joint' of the specimen 'system'" in capsys.readouterr().err


def test_the_command_fails_on_nothing_but_survivors_and_killed_controls(capsys):
    names = ("chain-zeroed-target-rows", "chain-block")
    code = main([*names, "--jobs", "1", "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    assert (code, data["survivors"], data["killed_controls"]) == (0, [], [])
    assert data["missed_by_first_token"] == ["chain-zeroed-target-rows"]


def test_reports_name_every_specimen(capsys):
    assert main(["chain-always-accept", "--jobs", "1"]) == 0
    assert "chain-always-accept" in capsys.readouterr().out
    matrix = kill_matrix([specimens()["chain-always-accept"]])
    assert all("chain-always-accept" in FORMATS[form](matrix) for form in ("markdown", "html"))


@pytest.mark.nightly
def test_results_do_not_depend_on_how_specimens_are_spread_over_processes():
    """Those that are not registered are too."""
    registered = specimens()["chain-ids-of-eight-bits"]
    chosen = [registered, replace(registered, name="other")]
    spread, alone = (kill_matrix(chosen, jobs=jobs).rows for jobs in (2, 1))
    # How many shapes are tried depends on the pace of the machine.
    found = [[{**row.results, "shapes": None} for row in rows] for rows in (spread, alone)]
    assert found[0] == found[1]


def test_a_failure_for_another_reason_is_no_kill():
    """A generator of its own ignores seeds, in the right code as in the wrong one; what else fails counts."""
    control, defect = specimens()["unseen-whole-rows"], specimens()["handed-rows-of-sampled-requests"]
    defect = replace(defect, beside=("streams",))
    failed = {
        name: CheckResult(name, Status.FAILED, "it differs")
        for name in ("batch", "streams", columns.YARDSTICK)
    }
    assert matrix.MatrixRow(control, {"streams": failed["streams"]}, {}).as_expected
    assert matrix.MatrixRow(control, failed, {}).detected_by == ("batch",)
    assert not matrix.MatrixRow(defect, {"streams": failed["streams"]}, {}).as_expected


def test_a_defect_is_run_through_its_checks_and_three_others():
    every = [*columns.COLUMNS]
    for found in specimens().values():
        chosen = matrix.chosen_columns(found, every)
        assert chosen == [column for column in every if column in chosen]
        if found.is_control:
            assert chosen == every
        else:
            needed = {columns.EXACT, columns.YARDSTICK, "joint", *found.detected_by}
            assert needed <= {*chosen}
            assert len(chosen) == len(needed) + matrix.OTHERS


def test_every_check_is_run_on_defects_that_others_must_find():
    every = [*columns.COLUMNS]
    defects = [found for found in specimens().values() if not found.is_control]
    chosen = {
        check for found in defects for check in {*matrix.chosen_columns(found, every)} - {*found.detected_by}
    }
    assert chosen == {*every}


@pytest.mark.nightly
def test_the_whole_matrix():
    """In other processes, whose code must have files: else lines that ran only untraced would be nobody's."""
    matrix = kill_matrix(specimens().values(), jobs=2)
    assert not matrix.survivors
    assert not matrix.killed_controls
    assert not matrix.missed_by_sampling
    assert not [row.specimen.name for row in matrix.rows if row.missed]
