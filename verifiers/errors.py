"""The errors of both packages: one base, so that a caller can catch everything this project raises."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class SpecOracleError(Exception):
    """Base of every error that spec-oracle raises on purpose."""


class InvalidInputError(SpecOracleError, ValueError):
    """An argument is malformed; the message names the argument, the offending index and the value."""


class ContractError(SpecOracleError):
    """Code under test does not keep its contract; the message says what it did, and what it must do.

    ``call`` is (code, drafts, options) of the call of a sampler that shows it, None where that is not known;
    ``traced`` is (drafts, probability of its random decisions) of a traced one, None for an ordinary one.
    """

    call: Any = None
    traced: Any = None


def decided_for(requests: int, batch: int) -> str:
    """Return what to say of code that decided for fewer, or more, requests than the batch has."""
    decided = f"{requests} request{'s' * (requests != 1)}"
    return f"verify decided for {decided}, the batch has {batch}: decide for all requests at once"


_FEW = 20
"""Names that a line may list."""


def unknown(name: str, names: Iterable[str], what: str = "") -> str:
    """Return "unknown WHAT NAME" with the nearest of the known names, where one is near, and all of a few.

    >>> unknown("blok", ["token", "block"], "verifier")
    "unknown verifier 'blok'; did you mean 'block'? known ones are token, block"
    """
    known = list(names)
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = f"{' ' if near else '; '}known ones are {', '.join(known)}" if 0 < len(known) <= _FEW else ""
    return f"unknown {what and what + ' '}{name!r}{hint}{listed}"
