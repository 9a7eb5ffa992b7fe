"""Checks of verifiers: objects that take every random decision from a source, so that they can be enumerated."""
