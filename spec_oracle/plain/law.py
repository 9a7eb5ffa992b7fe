"""The exact law of one verification under the plain contract, by interception."""

import math
from typing import Any

import numpy as np

from spec_oracle.exact.conditional import ConditionalLaw, Outcome, law_of
from spec_oracle.exact.interception import (
    Branch,
    EnumeratedGenerator,
    TooManyBranchesError,
    enumerate_calls,
)
from spec_oracle.exact.representatives import OPEN, NotAlikeError
from spec_oracle.plain.calls import Handed, PlainCode, plain_arguments, raising
from spec_oracle.plain.contract import checked_emissions
from verifiers import Drafts

MOST_IN_FULL = 300
"""Most tokens of one draw that are all run."""


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

    The code sees fresh copies of its inputs in every branch. Where it draws one of many tokens and looks at
    it, few are run, and the others `assumed` to come out as these; ``in_full`` runs all. Errors as
    `enumerate_calls`, `ContractError` for what is no emission, `SubjectRaisedError` when the code raises
    while its random numbers are traced.
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
            leave_open=not in_full,
        )
        try:
            return law_of(drafts.vocab_size, [_outcome(branch, drafts, request) for branch in branches])
        except NotAlikeError as error:
            most = max(len(stand.values) for branch in branches for stand in branch.stands)
            if most > MOST_IN_FULL:
                raise TooManyBranchesError(f"{error}: {most} of them") from None
            return law_after(
                code, drafts, request, max_branches=max_branches, max_seconds=max_seconds, in_full=True
            )


def _generator(code: PlainCode) -> Any:
    """Return a generator of the library whose draws are enumerated."""
    if code.array == "numpy":
        return EnumeratedGenerator()
    import torch

    return torch.Generator()


def _outcome(branch: Branch[Any], drafts: Drafts, request: int) -> Outcome:
    """Return what a branch comes to; raises `NotAlikeError` where what is open is not the last token."""
    returned = branch.result
    opened = next((stand for stand in branch.stands if stand.value == OPEN), None)
    where: list[list[int]] = []
    if opened is not None and isinstance(returned, tuple | list) and len(returned) == 2:
        tokens, accepted = (
            np.array(part.tolist()) if hasattr(part, "detach") else np.array(part) for part in returned
        )
        where = np.argwhere(tokens == OPEN).tolist()
        tokens[tokens == OPEN] = opened.values[opened.chances.argmax()]
        if (accepted == OPEN).any():
            raise NotAlikeError("the accepted length is open")
        returned = (tokens, accepted)
    found = checked_emissions(returned, drafts)
    last = int(found.lengths[request]) - 1
    if where and where != [[request, last]]:
        raise NotAlikeError("a token was left open that is not the last")
    *prefix, following = found.tokens[request, : last + 1].tolist()
    return Outcome(tuple(prefix), OPEN if where else following, branch.weight, branch.stands, branch.alike)
