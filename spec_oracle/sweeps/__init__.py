"""Sweeps: one task over every combination of its axes, resumable."""

from spec_oracle.sweeps.run import Cell, Plan, rows_for, run

__all__ = ["Cell", "Plan", "rows_for", "run"]
