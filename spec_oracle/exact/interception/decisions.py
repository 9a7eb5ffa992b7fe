"""Decisions of a run: the law of each, which of its outcomes are run, and for which others these stand.

A draw of one of 150,000 tokens would take as many runs. There are two ways out, on request:

*Open tokens.* Where code returns a token that is not decided yet, nothing can depend on it any more: `OPEN`
is returned in its place, and its law with it. That is exact.

*Standing outcomes.* Where code asks for the token, as ``int()`` does, few outcomes are run: those that are
looked at, the first and the last of the others, and the likeliest, which stands for all others. That they
come out as this one does is an assumption, and told as such.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Law: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]

FEW: Final = 8
"""So many outcomes that nobody looks at are all run."""

OPEN: Final = 2**31 - 11
"""What is returned for a token that is not decided: a number of 32 bits that no token has."""

NEGLIGIBLE: Final = 1e-14
"""Outcomes of smaller conditional probability are taken for rounding of float64 thresholds and left out; each
one moves the law by at most this much."""


class Stand(NamedTuple):
    """A ``value`` that stands for all ``values`` [n], its own among them; ``chances`` [n] sum to one."""

    value: int
    values: Indices
    chances: Law


class Decision(NamedTuple):
    """A decision that was taken.

    ``law`` of the outcomes, the ``tried`` ones, in order, and those of them that should come out ``alike``,
    the last of which stands for the rest (none if all are tried); the ``outcome`` taken, and the thread
    that asked (0 is the caller's).
    """

    law: Law
    tried: Indices
    alike: tuple[int, ...]
    outcome: int
    thread: int
    values: Indices | None

    @property
    def _stands(self) -> bool:
        return self.outcome in self.alike[-1:]

    @property
    def chance(self) -> float:
        """The probability of the outcomes for which the one that was taken stands."""
        return float(self._represented().sum())

    @property
    def value(self) -> int:
        """What the outcome is the number of."""
        return self.outcome if self.values is None else int(self.values[self.outcome])

    @property
    def stand(self) -> Stand | None:
        """What the outcome stands for besides itself."""
        if not self._stands:
            return None
        chances = self._represented()
        values = np.arange(len(chances)) if self.values is None else self.values
        return Stand(self.value, values, chances / chances.sum())

    def _represented(self) -> Law:
        if not self._stands:
            return self.law[self.outcome : self.outcome + 1]
        chances = self.law.copy()
        chances[self.tried] = 0.0
        chances[self.outcome] = self.law[self.outcome]
        return chances

    def is_as(self, other: "Decision") -> bool:
        """Whether the same was decided, by the same law."""
        mine, theirs = ((d.outcome, d.alike, d.thread) for d in (self, other))
        return mine == theirs and np.array_equal(self.law, other.law)

    def following(self) -> "Decision | None":
        """Return the decision with the next outcome that is tried, None after the last."""
        later = self.tried[self.tried > self.outcome]
        return self._replace(outcome=int(later[0])) if len(later) else None


def normalised(weights: Sequence[float] | Law) -> Law:
    """Return the law in proportion to the weights, without what is negligible."""
    law = np.asarray(weights, dtype=np.float64)
    law = np.where(law >= NEGLIGIBLE * law.sum(), law, 0.0)
    scaled: Law = law / law.sum()
    return scaled


def chosen(
    law: Law, values: Indices | None, looked_at: Collection[int] | None, taken: Collection[int]
) -> tuple[Indices, tuple[int, ...]]:
    """Choose the outcomes to run, and those of them that should come out alike (none if all are run).

    ``values`` are those of the outcomes (None: themselves). With ``looked_at`` None all are run; ``taken``
    values stand for others already.
    """
    possible = np.flatnonzero(law)
    if looked_at is None or len(possible) <= FEW:
        return possible, ()
    numbers = possible if values is None else values[possible]
    plain = ~np.isin(numbers, [*looked_at, *taken])
    others = possible[plain]
    if len(others) <= FEW:
        return possible, ()
    alike = (int(others[0]), int(others[-1]), int(others[law[others].argmax()]))
    return np.unique([*possible[~plain], *alike]), alike
