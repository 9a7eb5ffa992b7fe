"""Engines that compute in float32: their verification sums in another order than a request for one token.

Logits are sums of `TERMS` products. Forward they are those of ``next_token_probs``, backward those of
verification; the probabilities of both differ by a factor of some 1e-5, and by ten times as much where an
offset that all logits share uses up the digits. Right engines may not be called lossy for it; a defect that
is larger must be found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.specimens.call_patterns import SteppingEngine
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import TARGET, VOCAB, Row, Rows, Uniform, engine

Softmax: TypeAlias = Callable[[NDArray[np.float32]], Any]

TERMS = 64
FORWARD, BACKWARD = 1, -1


_RANDOM = np.random.default_rng(5)
_PRODUCTS = {
    last: (_RANDOM.standard_normal((VOCAB, TERMS)) / 8, _RANDOM.standard_normal(TERMS))
    for length in range(3)
    for last in product(range(VOCAB), repeat=length)
}
"""By last tokens: what the logits are sums of, and what they share."""


def logits(last: tuple[int, ...], order: int, offset: float) -> NDArray[np.float32]:
    """Return the sums of float32 products after the last tokens, in one of two orders, [V]."""
    own, shared = _PRODUCTS[last]
    terms = (own + offset * shared).astype(np.float32)
    return np.asarray(np.cumsum(terms[:, ::order], axis=1, dtype=np.float32)[:, -1])


def in_float32(sums: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of logits, all in float32."""
    powers = np.exp(sums - sums.max())
    return np.asarray(powers / powers.sum(dtype=np.float32))


def in_float64(sums: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the softmax in float64 of logits in float32: nothing shows how these were made."""
    powers = np.exp(sums.astype(np.float64) - sums.max())
    return np.asarray(powers / powers.sum())


def from_logs(sums: NDArray[np.float32]) -> list[float]:
    """Return a list made of log-probabilities in float32."""
    logs = sums - np.log(np.exp(sums).sum(dtype=np.float32))
    return [float(np.exp(float(log))) for log in logs]


def _row(softmax: Softmax, order: int, offset: float, context: Sequence[int]) -> Any:
    return softmax(logits(tuple(context[-2:]), order, offset))


def rows(softmax: Softmax, order: int, offset: float) -> Rows:
    """Return rows by the last two tokens."""
    return partial(_row, softmax, order, offset)


def drafts(context: Sequence[int], order: int = FORWARD) -> Row:
    """Return rows of a drafter."""
    return list(map(float, in_float32(logits(tuple(context[-1:]), order, 1.0))))


@dataclass
class Rounding(SteppingEngine):
    """Verifies by rows that ``verification`` returns, as numbers of Python."""

    draft: Rows = drafts
    verification: Rows = TARGET

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        return list(map(float, self.verification(context)))


@dataclass
class Measured(Rounding):
    """Shows the rows of its verification."""

    def rows_along(self, prompt: Sequence[int], completion: Sequence[int]) -> list[Row]:
        """Return the rows before each token of a completion."""
        text = [*prompt, *completion]
        return [self.verifying(text[:end]) for end in range(len(prompt), len(text))]


class Redrafted(Rounding):
    """Computes the rows of its drafter again to verify with them: backward."""

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        found: list[int] = []
        for _ in range(min(self.draft_length, most)):
            found.append(self.choose(drafts([*context, *found], BACKWARD), uniform(), seed))
        return found


@dataclass
class Moved(Rounding):
    """Moves a little probability from the likeliest token to the unlikeliest one in verification."""

    moved: float = 3e-4

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        row = super().verifying(context)
        row[row.index(max(row))] -= self.moved
        row[row.index(min(row))] += self.moved
        return row


def _engine(kind: type[Rounding], softmax: Softmax, offset: float = 8.0) -> Any:
    target, verification = (rows(softmax, order, offset) for order in (FORWARD, BACKWARD))
    return partial(kind, target=target, verification=verification)


specimens_of("joint", engine=engine)(
    rounded_rows_moved=(
        "mutant: Verifies by rows that are off by 3e-4, in float32, which explains a tenth of that",
        _engine(Moved, in_float32),
    ),
)
specimens_of(engine=engine)(
    rounded_sums_in_other_order=(
        "control: Verification sums in another order than a request for one token, in float32",
        _engine(Rounding, in_float32),
    ),
    rounded_logs=(
        "control: The same, with rows that are lists, made of log-probabilities in float32",
        _engine(Rounding, from_logs),
    ),
    rounded_softmax_in_float64=(
        "control: The same, with a softmax in float64 of logits in float32",
        _engine(Rounding, in_float64),
    ),
    rounded_by_ten_times_as_much=(
        "control: The same, with logits that share an offset, and with rows along a completion",
        _engine(Measured, in_float32, 30.0),
    ),
    rounded_drafts_computed_twice=(
        "control: The same, and the rows of the drafter are computed again for verification",
        _engine(Redrafted, in_float32),
    ),
)
