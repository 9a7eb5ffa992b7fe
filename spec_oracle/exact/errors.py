"""What is raised where the law of code under test cannot be found by running every outcome."""

import time

from spec_oracle.errors import SpecOracleError


class NotTracedError(SpecOracleError):
    """The exact distribution of the code under test is out of reach: not every outcome can be run."""


class TooManyBranchesError(NotTracedError):
    """The code under test has more outcomes, decisions in a run, or work in all than was allowed."""


def require_time(end: float) -> None:
    """Raise `TooManyBranchesError` from the processor time ``end`` on."""
    if time.process_time() > end:
        raise TooManyBranchesError("the time for this distribution is over")
