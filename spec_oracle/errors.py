"""The project's errors; the base lives with `verifiers`, which imports nothing from here.

Every module imports this one first of all, so a foreign `verifiers` is noticed here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from spec_oracle.own_verifiers import require_own_verifiers

require_own_verifiers()

from verifiers.errors import InvalidInputError, SpecOracleError, unknown  # noqa: E402  # only now known as ours

__all__ = [
    "ContractError",
    "InvalidInputError",
    "SpecOracleError",
    "SubjectRaisedError",
    "raising",
    "unknown",
]


class ContractError(SpecOracleError):
    """Code under test does not keep its contract; the message says what it did, and what it must do."""


class SubjectRaisedError(SpecOracleError):
    """The code under test raised an exception on valid input."""


@contextmanager
def raising() -> Iterator[None]:
    """Turn whatever code under test raises inside the block into a `SubjectRaisedError`."""
    try:
        yield
    except (SpecOracleError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it may call sys.exit
        raise SubjectRaisedError(f"raised {type(error).__name__}: {error}") from error
