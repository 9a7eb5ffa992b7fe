"""What is raised where a law cannot be found by running every outcome, and what limits the time for it."""

import math
import time
from dataclasses import dataclass
from functools import lru_cache

from spec_oracle.errors import SpecOracleError


class NotTracedError(SpecOracleError):
    """The exact distribution of the code under test is out of reach: not every outcome can be run."""


class TooManyBranchesError(NotTracedError):
    """The code under test has more outcomes, decisions in a run, or work in all than was allowed."""


@dataclass
class Deadline:
    """An ``end`` of processor time, which takes longer to ask for than the time of day.

    One thread uses no more of it than goes by.
    """

    end: float = math.inf
    next_look: float = -math.inf

    def is_over(self) -> bool:
        """Whether the processor time has been used."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        self.next_look = now + self.end - time.process_time()
        return self.next_look < now


_deadline = lru_cache(maxsize=16)(Deadline)
"""The deadline of each ``end``."""


def require_time(end: float) -> None:
    """Raise `TooManyBranchesError` from the processor time ``end`` on."""
    if _deadline(end).is_over():
        raise TooManyBranchesError("the time for this distribution is over")
