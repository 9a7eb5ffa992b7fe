"""The exact law of one verification under the plain contract, by interception."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.conditional import ConditionalLaw, Leaves
from spec_oracle.exact.interception import EnumeratedGenerator, enumerate_calls
from spec_oracle.exact.interception.decisions import OPEN, Stand
from spec_oracle.plain.calls import Handed, PlainCode, plain_arguments, raising
from spec_oracle.plain.contract import Emissions, checked_emissions
from verifiers import Drafts


class _NotATokenError(SpecOracleError):
    """What was left open is no token at the end of an emission."""


def law_after(
    code: PlainCode,
    drafts: Drafts,
    request: int = 0,
    *,
    max_branches: int = 100_000,
    max_seconds: float = math.inf,
    in_full: bool = False,
) -> ConditionalLaw:
    """Return the exact law of the emission of one request of a batch, given the drafts of all.

    The code sees fresh copies of its inputs in every branch. Where it draws one of many tokens and looks at it,
    few are run, and the others `assumed` to come out as these; ``in_full`` runs all. Errors as
    `enumerate_calls`, `ContractError` for what is no emission, `SubjectRaisedError` when the code raises while
    its random numbers are followed.
    """
    inputs = [Handed(code, array) for array in plain_arguments(drafts)]

    def call() -> Any:
        tokens, draft, target = (given.fresh() for given in inputs)
        return code.function(tokens, draft, target, _generator(code))

    with raising():
        branches = enumerate_calls(
            call,
            max_branches=max_branches,
            max_seconds=max_seconds,
            looked_at=None if in_full else {-1, *np.unique(drafts.tokens[request]).tolist()},
        )
        leaves = Leaves(drafts.vocab_size)
        try:
            for weight, returned, stands in branches:
                _add(leaves, weight, _emission(returned, stands, drafts, request), stands)
        except _NotATokenError:
            return law_after(
                code, drafts, request, max_branches=max_branches, max_seconds=max_seconds, in_full=True
            )
    return leaves.law


def _generator(code: PlainCode) -> Any:
    """Return a generator of the library whose draws are enumerated."""
    if code.array == "numpy":
        return EnumeratedGenerator()
    import torch

    return torch.Generator()


def _emission(
    returned: Any, stands: Sequence[Stand], drafts: Drafts, request: int
) -> tuple[tuple[int, ...], int]:
    """Return the accepted tokens, and the one that follows, which may be `OPEN`."""
    opened = next((stand for stand in stands if stand.value == OPEN), None)
    where: list[list[int]] = []
    if opened is not None and isinstance(returned, tuple | list) and len(returned) == 2:
        tokens, accepted = (np.array(part) for part in returned)
        where = np.argwhere(tokens == OPEN).tolist()
        tokens[tokens == OPEN] = opened.values[opened.chances.argmax()]
        if (accepted == OPEN).any():
            raise _NotATokenError("the accepted length is open")
        returned = (tokens, accepted)
    found: Emissions = checked_emissions(returned, drafts)
    last = int(found.lengths[request]) - 1
    if where and where != [[request, last]]:
        raise _NotATokenError("a token was left open that is not the last")
    *accepted_tokens, following = found.tokens[request, : last + 1].tolist()
    return tuple(accepted_tokens), OPEN if where else following


def _add(leaves: Leaves, weight: float, emission: tuple[tuple[int, ...], int], stands: Sequence[Stand]) -> None:
    """Add what a branch comes to, for all outcomes that it stands for."""
    prefix, following = emission
    stand = next((stand for stand in stands if stand.value == following), None)
    if stand is None:
        leaves.add(prefix, following, weight)
    else:
        masses = np.bincount(stand.values, stand.chances * weight, minlength=leaves.vocab_size)
        assumed = 0.0 if following == OPEN else weight - masses[following]
        leaves.add_all(prefix, masses, assumed)
