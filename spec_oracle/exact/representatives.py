"""Which outcomes of a random decision are run, and which of them represent the others: the one policy.

To sample one of 150,000 tokens would take as many runs. There are two ways out, both on request:

*An open token.* Where the code under test returns a token that is not decided yet, nothing can depend on
it any more: the token is left open, and its law is read instead. That is exact. Foreign code is seen to
return `OPEN` in its place; a verifier's `verifiers.DecisionSource` answers with an `enumeration.OpenToken`.

*Representatives.* Where the code looks at the token first, few outcomes are run: the ids at which it is known
to look (drafted ones), the first and the last of the others, and the likeliest of them, which stands for all
that are not run. That these lead to what it leads to is an assumption: its share of the probability is stated
(`ConditionalLaw.assumed`), and that the three lead to the same is checked (`require_alike`).
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact.errors import NotTracedError

Law: TypeAlias = Floats
Indices: TypeAlias = Integers

FEW: Final = 8
"""So many outcomes at which no code looks are all run, one run each."""

FEW_OF_A_BATCH: Final = 16
"""The same for verifiers, all outcomes of which are run as one batch."""

OPEN: Final = 2**31 - 11
"""What foreign code is seen to return for a token that is left open: a number of 32 bits, no token."""

_EQUAL: Final = 1e-9
"""Probabilities that differ by no more are taken to be equal."""


class NotAlikeError(NotTracedError):
    """Outcomes of which few were run do not lead to the same, or an open token is not the last one."""


class Stand(NamedTuple):
    """A ``value`` that stands for all ``values`` [n], its own among them; ``chances`` [n] sum to one."""

    value: int
    values: Indices
    chances: Law


Alike: TypeAlias = tuple[Hashable, int]
"""A decision, named by the outcomes before it, and a value of it that should lead to what others lead to."""


def chosen(
    law: Law,
    looked_at: Collection[int] | None,
    *,
    values: Indices | None = None,
    taken: Collection[int] = (),
    few: int = FEW,
) -> tuple[Indices, tuple[int, ...]]:
    """Choose the outcomes to run, and those of them that should lead to the same (none if all are run).

    The last of the latter stands for what is not run. ``values`` are those of the outcomes (None:
    themselves). With ``looked_at`` None all are run; ``taken`` values stand for others already.
    """
    possible = np.flatnonzero(law)
    if looked_at is None or len(possible) <= few:
        return possible, ()
    numbers = possible if values is None else values[possible]
    plain = ~np.isin(numbers, [*looked_at, *taken])
    others = possible[plain]
    if len(others) <= few:
        return possible, ()
    alike = (int(others[0]), int(others[-1]), int(others[law[others].argmax()]))
    return np.unique([*possible[~plain], *alike]), alike


def represented(law: Law, tried: Indices, outcome: int) -> Law:
    """Return the part of a ``law`` for which an ``outcome`` stands: itself, and all that is not ``tried``."""
    chances = law.copy()
    chances[tried] = 0.0
    chances[outcome] = law[outcome]
    return chances


def require_alike(runs: Iterable[tuple[float, Collection[Alike], Any, int]]) -> None:
    """Raise `NotAlikeError` unless outcomes of which few were run lead to the same, except for themselves.

    Each of the ``runs`` is its probability, the outcomes in it that should lead to what others lead to, and
    what it came to: anything, and the token that is last.
    """
    laws: dict[Any, dict[int, dict[Any, float]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(float))
    )
    for weight, alike, before, last in runs:
        for decision, value in alike:
            laws[decision][value][before, None if last == value else last] += weight
    for by_value in laws.values():
        totals = ((law, sum(law.values())) for law in by_value.values())
        first, *others = ({what: mass / total for what, mass in law.items()} for law, total in totals)
        keys = set(first).union(*others)
        for law in others:
            if any(abs(first.get(key, 0.0) - law.get(key, 0.0)) > _EQUAL for key in keys):
                raise NotAlikeError("token ids represented by one lead to different results")
