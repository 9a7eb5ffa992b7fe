"""The exact law of unmodified foreign code: its randomness becomes a tree of decisions.

`enumerate_calls` runs the code once per branch. How random numbers are traced is described in `draws`, which
of them are the same in `sources`, which are none of the code's in `own_seeds`, races in `races`, what each
library does in `libraries`.

Modules use those on their left only: run, symbols, own_seeds, draws, sources, races, comparisons, algebra,
libraries, calls.
"""

from spec_oracle.exact.errors import CannotTraceError, NotTracedError, TooManyBranchesError, UnrepeatableError
from spec_oracle.exact.interception.calls import (
    Leaf,
    enumerate_calls,
    interception,
    outcomes,
    sample_call,
)
from spec_oracle.exact.interception.own_seeds import ASKED, OwnSeeds
from spec_oracle.exact.representatives import Branch, Decision, guarded

__all__ = [
    "ASKED",
    "Branch",
    "CannotTraceError",
    "Decision",
    "Leaf",
    "NotTracedError",
    "OwnSeeds",
    "TooManyBranchesError",
    "UnrepeatableError",
    "enumerate_calls",
    "guarded",
    "interception",
    "outcomes",
    "sample_call",
]
