"""A decision of a run: its law, the outcomes that are run, and the outcomes that they represent."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from spec_oracle.exact.representatives import Indices, Law, Stand, represented

NEGLIGIBLE: Final = 1e-14
"""Outcomes of smaller conditional probability are taken for rounding of float64 thresholds and left out; each
one moves the law by at most this much."""

_array, _asarray = np.array, np.asarray
"""As they are when nothing is traced: what foreign code calls by these names looks for symbols."""


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
    def _stands(self) -> bool:
        return self.outcome in self.alike[-1:]

    @property
    def chance(self) -> float:
        """The probability of the outcomes that the one taken represents."""
        return float(self._represented().sum() if self._stands else self.law[self.outcome])

    @property
    def value(self) -> int:
        """The value of the outcome."""
        return self.outcome if self.values is None else int(self.values[self.outcome])

    @property
    def stand(self) -> Stand | None:
        """The outcomes that the one taken represents, None for itself alone."""
        if not self._stands:
            return None
        chances = self._represented()
        values = np.arange(len(chances)) if self.values is None else self.values
        return Stand(self.value, values, chances / chances.sum())

    def _represented(self) -> Law:
        if not self._stands:
            return self.law[self.outcome : self.outcome + 1]
        return represented(self.law, self.tried, self.outcome)

    def is_as(self, other: "Decision") -> bool:
        """Whether the same was decided, by the same law."""
        mine, theirs = ((d.outcome, d.alike) for d in (self, other))
        return mine == theirs and self.law.tobytes() == other.law.tobytes()

    def following(self) -> "Decision | None":
        """Return the decision with the next outcome that is tried, None after the last."""
        later = self.tried[self.tried > self.outcome]
        return self._replace(outcome=int(later[0])) if len(later) else None


def normalised(weights: Sequence[float] | Law) -> Law:
    """Return the law in proportion to the weights, without what is negligible."""
    if len(weights) == 2 and (total := float(weights[0]) + float(weights[1])) > 0:
        # Most decisions are comparisons, and two floats are divided long before numpy has begun.
        kept = [mass if (mass := float(weight)) >= NEGLIGIBLE * total else 0.0 for weight in weights]
        total = kept[0] + kept[1]
        return _array([kept[0] / total, kept[1] / total])
    law = _asarray(weights, dtype=np.float64)
    total = np.add.reduce(law)
    if np.minimum.reduce(law) < NEGLIGIBLE * total:
        law = np.where(law >= NEGLIGIBLE * total, law, 0.0)
        total = np.add.reduce(law)
    scaled: Law = law / total
    return scaled
