"""Checks of rules for draft trees: all their decisions are enumerated, on all trees they accept."""
