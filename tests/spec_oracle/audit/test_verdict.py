"""A verdict of lossless says that no check saw a deviation, whatever its name."""

from dataclasses import replace

import pytest

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import NOTHING_DECLARED, Bound
from spec_oracle.audit.experiment import first_failure
from spec_oracle.audit.reports import SubjectVerdict
from spec_oracle.audit.results import Cause, CheckResult, How, Status, failed, inconclusive, passed
from spec_oracle.audit.verdict import verdict_of
from spec_oracle.servers.checks.conclusion import unless_unconfirmed
from spec_oracle.servers.checks.model import Distances, result_of_distances

JOINT = CheckResult("joint", Status.PASSED, "", how=How.PROVEN)
OPEN = inconclusive("neither confirmed nor refuted", how=How.SAMPLED)
UNDECIDED = replace(OPEN, cause=Cause.UNDECIDED)


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "joint"])
def test_an_undecided_deviation_makes_the_verdict_inconclusive(name):
    checks = JOINT, replace(UNDECIDED, name=name)
    assert verdict_of(checks, NOTHING_DECLARED) is SubjectVerdict.INCONCLUSIVE
    assert verdict_of((JOINT, replace(OPEN, name=name)), NOTHING_DECLARED) is SubjectVerdict.LOSSLESS


def test_an_undecided_deviation_hides_no_defect_of_another_check():
    checks = JOINT, replace(UNDECIDED, name="calls"), replace(failed(""), name="batch")
    assert verdict_of(checks, NOTHING_DECLARED) is SubjectVerdict.LOSSY


def test_a_declared_bound_does_not_decide_an_undecided_deviation():
    facts = replace(NOTHING_DECLARED, bound=Bound("total_variation", 0.1))
    assert verdict_of((JOINT,), facts) is SubjectVerdict.DECLARED_LOSSY
    assert verdict_of((JOINT, replace(UNDECIDED, name="calls")), facts) is SubjectVerdict.INCONCLUSIVE


def test_of_several_open_parts_the_undecided_one_is_reported():
    assert first_failure(0.1, lambda _: OPEN, lambda _: UNDECIDED, lambda _: passed("")) == UNDECIDED
    assert first_failure(0.1, lambda _: UNDECIDED, lambda _: failed("")).status is Status.FAILED


def test_servers_whose_probabilities_are_unconfirmed_leave_contradictions_undecided():
    context = Context(results={"plain-law": OPEN})
    assert unless_unconfirmed(failed("completions contradict them"), context).cause is Cause.UNDECIDED
    assert unless_unconfirmed(passed("as expected"), context).cause is None


@pytest.mark.parametrize(("distances", "is_undecided"), [([0.03, 0.05], True), ([0.0, 0.12], False)])
def test_another_model_is_undecided_where_it_differs_for_certain(distances, is_undecided):
    """By 0.04 on average, which is surely more than 0, but not surely more or less than 0.041."""
    apart = Distances()
    apart.distances += distances * 100
    found = result_of_distances("distributions", apart, 0.0 if is_undecided else 0.1, 0.041)
    assert (found.status, found.cause is Cause.UNDECIDED) == (Status.INCONCLUSIVE, is_undecided)
