"""Sweeps: one task over every combination of its axes, resumable."""

from spec_oracle.sweeps.plan import Cell, Plan
from spec_oracle.sweeps.run import rows_for, run

__all__ = ["Cell", "Plan", "rows_for", "run"]
