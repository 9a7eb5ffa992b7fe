"""The public strategies, under the name tests use, and how many examples a test takes."""

from hypothesis import settings

from spec_oracle.toy.strategies import instances, rows

__all__ = ["examples", "instances", "rows"]


def examples(percent: int) -> settings:
    """Return settings for so many percent of the profile's examples: of 30 by day, 2000 at night."""
    return settings(max_examples=max(3, settings.default.max_examples * percent // 100))
