"""One false-alarm rate for a whole run, split before anything is drawn.

Whoever has a rate hands equal parts of it to its tests. Parts depend neither on order, nor on which worker
runs what, nor on what other tests found. They add up to the run's alpha at most, so by the union bound a run
without defects raises any alarm with probability alpha at most. Nothing is handed out twice: a retry has no
rate.
"""

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.validation import require_rate

DEFAULT_ALPHA = 1e-6
"""Chance that a run over correct subjects raises any false alarm."""


def split(alpha: float, tests: int) -> float:
    """Return the rate of each of ``tests`` tests that share ``alpha``.

    >>> split(1e-6, 4)
    2.5e-07
    """
    require_rate(alpha, "alpha")
    if tests < 1:
        raise InvalidInputError(f"tests: expected at least 1, got {tests}")
    return alpha / tests
