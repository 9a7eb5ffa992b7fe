"""The public strategies, under the name tests use, and how many examples a test takes."""

import pytest
from hypothesis import settings

from spec_oracle.toy.strategies import instances, rows

__all__ = ["at_night", "by_day", "examples", "instances", "rows"]


def examples(percent: int) -> settings:
    """Return settings for so many percent of the profile's examples: of 15 by day, 2000 at night."""
    return settings(max_examples=max(3, settings.default.max_examples * percent // 100))


def at_night(*cases):
    """Return test cases, of one argument each or tuples of several, that only the nightly run has."""
    return [pytest.param(*c if isinstance(c, tuple) else (c,), marks=pytest.mark.nightly) for c in cases]


def by_day(cases, chosen):
    """Return all of some test cases; those that are not ``chosen`` by day are run at night."""
    return [one if one in chosen else at_night(one)[0] for one in cases]
