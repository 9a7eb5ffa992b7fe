"""The check `calls` for functions: no call remembers the one before, or repeats its random numbers."""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.pairs import PairToy, pairs_over
from spec_oracle.audit.plain import make_generator
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import watched
from spec_oracle.toy import Instance

ROUNDS = 6
BATCH = 500


def calls_of_function(
    subject: Subject, first: Instance, second: Instance, *, alpha: float, seed: int
) -> CheckResult:
    """Judge whether consecutive calls with one generator, on fresh drafts, are independent.

    Calls take turns between two instances of one shape, as other requests come by in a service: rows that
    were kept from the call before are another model's.
    """
    toy, generator = PairToy((first, second), seed), make_generator(subject.array, seed)

    def pair(_: int) -> NDArray[np.int64]:
        return toy.paired(*(toy.texts(subject, BATCH, generator, member) for member in (0, 1)))

    return watched("calls", "texts of two calls", [toy.law], pairs_over(ROUNDS, pair), alpha=alpha)
