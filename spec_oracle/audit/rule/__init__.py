"""Checks of verifiers: they take every random decision from a source, so that they can be enumerated."""
