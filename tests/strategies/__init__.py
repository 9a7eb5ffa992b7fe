"""The public strategies, under the name tests use."""

from spec_oracle.toy.strategies import instances, rows

__all__ = ["instances", "rows"]
