"""Whole engines of other people, unmodified, behind the engine contract."""
