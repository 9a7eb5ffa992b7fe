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

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact.errors import NotTracedError

T = TypeVar("T")

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

NEGLIGIBLE: Final = 1e-14
"""Outcomes of smaller conditional probability are taken for rounding of float64 thresholds and left out; each
one moves the law by at most this much."""

_KEPT: Final = 64
"""The longest laws that are kept: runs ask for the same ones again and again."""

_array, _asarray = np.array, np.asarray
"""As they are when nothing is traced: what foreign code calls by these names looks for symbols."""


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


class Decision(NamedTuple):
    """A decision that was taken.

    ``law`` of the outcomes, those that are ``tried``, in order, and those of them that should lead to the
    same, ``alike``, the last of which stands for the rest (none if all are tried); the ``outcome`` taken.
    ``drawn``: which of the run's draws it decided, if known.
    """

    law: Law
    tried: Indices
    alike: tuple[int, ...]
    outcome: int
    values: Indices | None
    drawn: int | None = None

    @property
    def stands(self) -> bool:
        """Whether the outcome represents others."""
        return self.outcome in self.alike[-1:]

    @property
    def chance(self) -> float:
        """The probability of the outcomes that the one taken represents."""
        return float(self._represented.sum() if self.stands else self.law[self.outcome])

    @property
    def value(self) -> int:
        """The value of the outcome."""
        return self.outcome if self.values is None else int(self.values[self.outcome])

    @property
    def stand(self) -> Stand | None:
        """The outcomes that the one taken represents, None for itself alone."""
        if not self.stands:
            return None
        chances = self._represented
        values = np.arange(len(chances)) if self.values is None else self.values
        return Stand(self.value, values, chances / chances.sum())

    @property
    def _represented(self) -> Law:
        return represented(self.law, self.tried, self.outcome)

    def is_as(self, other: "Decision") -> bool:
        """Whether the same was decided, by the same law."""
        mine, theirs = ((d.outcome, d.alike) for d in (self, other))
        return mine == theirs and self.law.tobytes() == other.law.tobytes()

    def following(self) -> "Decision | None":
        """Return the decision with the next outcome that is tried, None after the last."""
        later = self.tried[self.tried > self.outcome]
        return self._replace(outcome=int(later[0])) if len(later) else None


class Branch(NamedTuple, Generic[T]):
    """A run: its probability, what the code under test returned, and which values in it stand for others.

    ``alike``: values that should lead to what others lead to. ``script``: the decisions that led there.
    ``guarded``: the probability of what was left out, of guards of noise against zeros.
    """

    weight: float
    result: T
    stands: tuple[Stand, ...] = ()
    alike: tuple[Alike, ...] = ()
    script: tuple[Decision, ...] = ()
    guarded: float = 0.0


def guarded(branches: Sequence[Branch[Any]]) -> float:
    """Return a bound of the total variation that guards of noise against zeros make."""
    return math.fsum(branch.weight * branch.guarded for branch in branches)


def normalised(weights: Sequence[float] | Law) -> Law:
    """Return the law in proportion to the weights, without what is negligible."""
    if len(weights) == 2 and (total := float(weights[0]) + float(weights[1])) > 0:
        # Most decisions are comparisons, and two floats are divided long before numpy has begun.
        kept = [mass if (mass := float(weight)) >= NEGLIGIBLE * total else 0.0 for weight in weights]
        total = kept[0] + kept[1]
        return _array([kept[0] / total, kept[1] / total])
    law = _asarray(weights, dtype=np.float64)
    return _kept_in_proportion(law.tobytes()) if law.size <= _KEPT else _in_proportion(law)


@lru_cache(maxsize=4096)
def _kept_in_proportion(weights: bytes) -> Law:
    law = _in_proportion(np.frombuffer(weights))
    law.flags.writeable = False
    return law


def _in_proportion(law: Law) -> Law:
    total = np.add.reduce(law)
    if np.minimum.reduce(law) < NEGLIGIBLE * total:
        law = np.where(law >= NEGLIGIBLE * total, law, 0.0)
        total = np.add.reduce(law)
    scaled: Law = law / total
    return scaled
