"""A defect that was traced is confirmed by plain completions at its own size, before it is called lossy."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, require_repeated, told
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.exact_comparison import Asked, CompletionLaws, TracedLaw, traced
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.exact.completions import distance

_SAME = 1e-9


@dataclass
class PlainSample:
    """What an engine returned when nothing was traced; the last outcome stands for all others."""

    asked: Asked
    number: Mapping[object, int]
    law: NDArray[np.float64]
    rng: np.random.Generator
    counts: NDArray[np.int64] = field(init=False)
    seconds: float = field(default=0.0, init=False)
    slack: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.law), dtype=np.int64)

    def draw(self, count: int) -> None:
        """Add completions."""
        started = time.perf_counter()
        for _ in range(count):
            self.counts[self.number.get(self.asked.sampled(self.rng), len(self.number))] += 1
        self.seconds += time.perf_counter() - started


def confirmed_claim(
    worst: CompletionLaws, context: Context, rounding: Rounding, until: float = math.inf
) -> str:
    """Sample between what was traced and what is expected; return a line on how the claim stands.

    Where samples are too few, it is traced again: once, and more often only before ``until``. Raises
    `NoEvidenceError` where samples contradict it. Where target-only decoding is itself traced, and the rows
    differ from it, that is confirmed too: both share the part of the rate.
    """
    claims = [(worst.traced, worst.expected)]
    if worst.plain is not None and not rounding.explains(worst.rows_off, worst.tokens):
        claims.append((worst.plain, worst.reported))
    first, *_ = [_confirmed(claim, law, context, len(claims), until) for claim, law in claims]
    return first


def _confirmed(
    claim: TracedLaw, expected: Mapping[object, float], context: Context, claims: int, until: float
) -> str:
    number = {one: place for place, one in enumerate({**claim.law, **expected})}
    laws = [np.array([*(law.get(one, 0.0) for one in number), 0.0]) for law in (claim.law, expected)]
    sample = PlainSample(claim.asked, number, laws[1], context.stream("engine/claimed"))
    is_confirmed = borne_out(
        sample,
        laws[0],
        rate=effort.CLAIM_PART * context.rate / claims,
        seconds=effort.CLAIM_SHARE * context.budget / claims,
        pilot=effort.ENGINE_PILOT,
        most=effort.ENGINE_MANY,
    )
    find = lambda: traced(claim.asked, effort.ENGINE_RUNS)  # noqa: E731
    is_same = lambda found: distance(found.law, claim.law) <= _SAME  # noqa: E731
    repeats = 0 if is_confirmed else require_repeated(find, is_same, until)
    return told("what was traced", int(sample.counts.sum()), repeats)
