"""Two samples of one distribution pass; of two distributions that differ by what is stated they do not."""

import pytest

from spec_oracle.audit.results import Status
from spec_oracle.servers.checks.reference import compared
from tests.spec_oracle.audit.test_experiment import CONTEXT, EFFORT, FAIR, LOADED, die

OTHER = "those of a fair die"


@pytest.mark.parametrize(("falls", "status"), [(FAIR, Status.PASSED), (LOADED, Status.FAILED)])
def test_outcomes_of_unknown_distribution_are_compared_with_those_of_a_reference(falls, status):
    own, other = ("a die", die(falls).many), (OTHER, die(FAIR, seed=1).many)
    result = compared(own, other, CONTEXT, EFFORT, cells=6)
    assert result.status is status
    assert ("6, not 0.1" in result.detail) == (status is Status.FAILED)
    assert result.findings.smallest_detectable_tv <= 0.05
    assert OTHER in result.detail


def test_a_comparison_ends_where_there_are_no_more_outcomes():
    other, few = (OTHER, die(FAIR, seed=1).many), die(FAIR).many(300)
    scarce = ("a die", lambda count: [few.pop() for _ in few[:count]])
    result = compared(scarce, other, CONTEXT, EFFORT, cells=6)
    assert result.status is Status.INCONCLUSIVE
    assert "a die: 300 samples are too few" in result.detail
