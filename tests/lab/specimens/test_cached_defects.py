"""Defects of engines with key-value caches are killed by the checks that they name, and controls stand."""

import pytest

from lab.specimens.catalogue import catalogue
from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from tests.strategies import by_day

pytest.importorskip("transformers")

ALL = {name: found for name, found in specimens().items() if name.startswith("cached-")}
DEFECTS = [(name, check) for name, found in ALL.items() for check in found.detected_by]
CONTROLS = [(name, check) for name, found in ALL.items() if found.is_control for check in ("joint", "calls")]
OF_DAY = [(name, "joint") for name in ("cached-engine-with-options", "cached-sample-and-match")]


def by_cost(cases, slow):
    """Leave slow checks to the nightly run."""
    return [pytest.param(*c, marks=pytest.mark.nightly if c[1] in slow else ()) for c in cases]


def outcome(name, check, bench):
    return result_of(check, of_engines(name, ALL[name].engine()), bench)


@pytest.mark.parametrize(("name", "check"), by_cost(DEFECTS, ("length", "draft-law")))
def test_a_defect_is_killed(name, check):
    inputs = Inputs(tokens=2 if check == "joint" else 3)  # completions of two tokens have a draft
    assert outcome(name, check, Context(rate=1e-8, inputs=inputs, budget=20.0)).status is Status.FAILED


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(("name", "check"), by_day(CONTROLS, OF_DAY))
def test_a_control_passes(name, check):
    result = outcome(name, check, Context(rate=1e-8, inputs=Inputs(tokens=3), budget=20.0))
    assert result.status is Status.PASSED
    assert result.measured.total_variation < 1e-12


def test_lengths_are_not_asked_where_stop_tokens_cut_calls_short():
    found = outcome("cached-engine-with-options", "length", Context(inputs=Inputs(tokens=3), budget=20.0))
    assert found.status is Status.NOT_APPLICABLE


def test_catalogue_classes_of_engines_are_planted():
    classes = {found.catalogue_id[0] for found in ALL.values() if not found.is_control}
    assert classes == {"D", "E", "H"}
    assert {found.catalogue_id for found in ALL.values()} <= {*catalogue(), "control"}
