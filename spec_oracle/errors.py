"""The project's errors; the base lives with `verifiers`, which imports nothing from here."""

from verifiers.errors import InvalidInputError, SpecOracleError

__all__ = ["InvalidInputError", "SpecOracleError"]
