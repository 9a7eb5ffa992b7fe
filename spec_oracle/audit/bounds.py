"""Declared bounds: how far from the target's distribution a rule says that it may be.

A verifier, or a function of the sampler contract, that is not lossless on purpose may say how far it goes:

    class Relaxed:
        declared_bound = ("total_variation", 0.1)   # or ("kl", 0.05), in nats

The check `joint` then passes within this bound, and fails beyond it: the verdict is `declared-lossy` or
`lossy`.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact import EmissionLaw

MEASURES: Final = {
    "total_variation": "total variation {:.3g}",
    "kl": "Kullback-Leibler divergence of a next-token distribution {:.3g} nats",
}
"""What a bound may be on, as the report says it.

The total variation is that of the first L+1 tokens. The divergence is KL(emitted || target) of the next token
after any of their prefixes: tokens after the emission are sampled from the target there, which can only lower
it. So a rule of which each step keeps a bound is never found beyond it.
"""

_NEGLIGIBLE: Final = 1e-9
"""The probability of a prefix below which rounding decides what comes after it."""


@dataclass(frozen=True)
class Bound:
    """``most`` of ``measure``, a name of `MEASURES`; raises `InvalidInputError` for anything else."""

    measure: str
    most: float

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise InvalidInputError(f"declared_bound: {unknown(self.measure, MEASURES)}")
        if not (isinstance(self.most, int | float) and 0 <= self.most < math.inf):
            raise InvalidInputError(f"declared_bound: expected a number of at least 0, got {self.most!r}")

    def __str__(self) -> str:
        return f"at most {MEASURES[self.measure].format(self.most)}"

    def figure(self, law: EmissionLaw) -> float:
        """Return how far the distribution of one call is from the target's, by this measure."""
        return float(law.total_variation) if self.measure == "total_variation" else largest_divergence(law)

    def compared(self, figure: float, instance: str) -> str:
        """Say what was found on an instance beside what is declared."""
        return f"{MEASURES[self.measure].format(figure)} on instance {instance!r}, {self.most:.3g} declared"


def declared_bound(thing: Any) -> Bound:
    """Return the bound that an object declares in its attribute ``declared_bound``; errors as `Bound`."""
    declared = thing.declared_bound
    if not isinstance(declared, tuple) or len(declared) != 2:
        raise InvalidInputError(f"declared_bound: expected (measure, number), got {declared!r}")
    measure, most = declared
    return Bound(measure, most if isinstance(most, int) else float(most))


def largest_divergence(law: EmissionLaw) -> float:
    """Return the largest KL(emitted || target) of a next-token distribution of one call, in nats."""
    emitted, vocab = law.extended().astype(np.float64), law.instance.vocab_size
    largest = 0.0
    for length in range(emitted.ndim):
        masses = emitted.reshape(vocab ** (length + 1), -1).sum(axis=1).reshape(-1, vocab)
        before = masses.sum(axis=1, keepdims=True)
        rows = np.divide(masses, before, out=np.zeros_like(masses), where=before > _NEGLIGIBLE)
        target = law.instance.target.rows(length).astype(np.float64)
        if (rows[target == 0] > _NEGLIGIBLE).any():
            return math.inf
        both = (rows > 0) & (target > 0)
        logs = np.log(np.divide(rows, target, out=np.ones_like(rows), where=both))
        largest = max(largest, float((rows * logs).sum(axis=1).max()))
    return largest
