"""The exact law of what a sampler emits after one draft, by tracing its random numbers."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.contracts.calls import Handed, SamplerCode, contract_arguments, raising
from spec_oracle.contracts.sampler import checked_emissions
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.conditional import ConditionalLaw, Leaves
from spec_oracle.exact.interception import (
    Branch,
    EnumeratedGenerator,
    TooManyBranchesError,
    enumerate_calls,
)
from spec_oracle.exact.interception.decisions import OPEN
from verifiers import Drafts

Emission: TypeAlias = tuple[tuple[int, ...], int]
"""The accepted tokens, and the one that follows."""

_ALIKE = 1e-9
"""Largest difference of probabilities that are taken to be equal."""


class _NotATokenError(SpecOracleError):
    """What was left open is no token at the end of what is emitted."""


def law_after(
    code: SamplerCode,
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
    inputs = [Handed(code, array) for array in contract_arguments(drafts)]

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
        leaves = Leaves(drafts.vocab_size)
        try:
            emissions = [_emission(branch, drafts, request) for branch in branches]
            _require_alike(branches, emissions)
        except _NotATokenError as error:
            most = max(len(stand.values) for branch in branches for stand in branch.stands)
            if most > effort.FULL_VOCABULARY:
                raise TooManyBranchesError(f"{error} ({most:,} tokens)") from None
            return law_after(
                code, drafts, request, max_branches=max_branches, max_seconds=max_seconds, in_full=True
            )
    for branch, emission in zip(branches, emissions, strict=True):
        _add(leaves, branch, emission)
    return leaves.law


def _generator(code: SamplerCode) -> Any:
    """Return a generator of the library whose draws are enumerated."""
    if code.array == "numpy":
        return EnumeratedGenerator()
    import torch

    return torch.Generator()


def _emission(branch: Branch[Any], drafts: Drafts, request: int) -> Emission:
    """Return the accepted tokens, and the one that follows, which may be `OPEN`."""
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
            raise _NotATokenError("the accepted length is open")
        returned = (tokens, accepted)
    found = checked_emissions(returned, drafts)
    last = int(found.lengths[request]) - 1
    if where and where != [[request, last]]:
        raise _NotATokenError("a token was left open that is not the last")
    *prefix, following = found.tokens[request, : last + 1].tolist()
    return tuple(prefix), OPEN if where else following


def _require_alike(branches: Sequence[Branch[Any]], emissions: Sequence[Emission]) -> None:
    """Raise `_NotATokenError` unless tokens of which few were run come out alike, save for themselves."""
    laws: dict[Any, dict[int, dict[Any, float]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(float))
    )
    for branch, (prefix, following) in zip(branches, emissions, strict=True):
        for decision, value in branch.alike:
            laws[decision][value][prefix, None if following == value else following] += branch.weight
    for by_value in laws.values():
        first, *others = (
            {what: mass / sum(law.values()) for what, mass in law.items()} for law in by_value.values()
        )
        for law in others:
            if any(
                abs(first.get(key, 0.0) - law.get(key, 0.0)) > _ALIKE for key in first.keys() | law.keys()
            ):
                raise _NotATokenError("another sampled token leads to something else")


def _add(leaves: Leaves, branch: Branch[Any], emission: Emission) -> None:
    """Add what a branch comes to, for all outcomes that it stands for."""
    prefix, following = emission
    stand = next((stand for stand in branch.stands if stand.value == following), None)
    if stand is None:
        leaves.add(prefix, following, branch.weight)
    else:
        masses, possible = np.zeros(leaves.vocab_size), stand.chances > 0
        masses[stand.values[possible]] = stand.chances[possible] * branch.weight
        leaves.add_all(prefix, masses, 0.0 if following == OPEN else branch.weight - masses[following])
