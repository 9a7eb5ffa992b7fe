"""The project's errors; the base lives with `verifiers`, which imports nothing from here.

Every module imports this one first of all, so a foreign `verifiers` is noticed here.
"""

from spec_oracle.own_verifiers import require_own_verifiers

require_own_verifiers()

from verifiers.errors import InvalidInputError, SpecOracleError, unknown  # noqa: E402  # only now known as ours

__all__ = ["InvalidInputError", "SpecOracleError", "unknown"]
