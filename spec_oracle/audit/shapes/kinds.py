"""Kinds of rows: target and draft at the position that a shape is about.

Rows [V] of target and draft have the drafted tokens first; `spec_oracle.audit.shapes.trees` moves these to
ids of interest.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.shapes.rounding import exact_row
from spec_oracle.statistics.streams import stream

RowPair: TypeAlias = tuple[Floats, Floats]
"""Rows [V] of target and draft."""

VARIANTS: Final = 3
"""Different rows of one kind at one size."""

_TAIL: Final = 1e-30
"""Weight of what is possible, but is not to count."""

_FEW: Final = 12
"""Tokens of large sparse rows."""

_ENDS: Final = (1, 2, 50_256, 128_001, 128_009, 151_643, 151_645)
"""Tokens that end a text, of Llama, Mistral, GPT-2 and Qwen."""


@lru_cache(maxsize=512)
def model_rows(  # noqa: PLR0917
    kind: str,
    vocab: int,
    count: int,
    dtype: str,
    variant: int,
    tail: bool,  # noqa: FBT001
) -> RowPair:
    """Return rows of a kind whose first ``count`` tokens are the drafted ones."""
    rng = stream(0, f"shapes/models/{kind}", vocab, count, variant)
    target, draft = _MAKERS[kind](vocab, count, rng)
    if tail and kind != "zero":
        draft[draft == 0] = _TAIL
    rows = exact_row(target, dtype), exact_row(draft, dtype)
    for row in rows:
        row.flags.writeable = False
    return rows


Maker: TypeAlias = Callable[[int, int, np.random.Generator], RowPair]


def one_hot(vocab: int, token: int) -> Floats:
    """Return the row in which a token is certain."""
    row = np.zeros(vocab)
    row[token] = 1.0
    return row


def _shared(mass: float, weights: Floats) -> Floats:
    return np.asarray(mass * weights / max(weights.sum(), _TAIL), dtype=np.float64)


def _even(count: int, rng: np.random.Generator) -> Floats:
    return rng.gamma(4.0, size=count)


def _flat(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """Most tokens about as likely as each other."""
    target = np.concatenate([_shared(0.5, _even(count, rng)), _shared(0.5, _even(vocab - count, rng))])
    return target, np.concatenate([_even(count, rng), np.zeros(vocab - count)])


def _good(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """The target wants what is drafted, mostly."""
    draft = _even(count, rng)
    target = np.concatenate([_shared(0.8, draft), _shared(0.2, _even(vocab - count, rng))])
    return target, np.concatenate([draft, np.zeros(vocab - count)])


def _zeros(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """A few tokens are possible; one that is drafted may not be."""
    target, draft = _flat(vocab, count, rng)
    others = count + rng.permutation(vocab - count)
    target[others[min(_FEW, (vocab - count + 1) // 2) :]] = 0.0
    if vocab > count or count > 1:
        target[0] = 0.0
    return target, draft


def _one_hot(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """The draft is one-hot, or else the target."""
    target, draft = _flat(vocab, count, rng)
    if rng.random() < 0.5 and vocab > 1:
        return one_hot(vocab, int(rng.integers(count + (vocab > count)))), draft
    return target, one_hot(vocab, 0)


def _equal(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """Target and draft are alike."""
    row = np.concatenate([_even(count, rng), np.zeros(vocab - count)])
    return row, row.copy()


def _near(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """A good drafter: the total variation of target and draft is from 0.001 to 0.03."""
    draft = np.concatenate([_shared(1.0, 1.0 + _even(count, rng)), np.zeros(vocab - count)])
    target, distance = draft.copy(), 10.0 ** rng.uniform(-3, -1.5)
    to_drafted = count > 1 and rng.random() < 0.5
    if to_drafted or vocab == count:
        others = np.zeros(vocab)
        others[count - 1] = distance
    else:
        ranks = np.asarray((1.0 + rng.permutation(vocab - count)) ** -3.0, dtype=np.float64)
        others = np.concatenate([np.zeros(count), _shared(distance, ranks)])
    target[0] -= distance
    return target + others, draft


def _tiny(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """Probabilities and ratios over seven decades: tokens with q far above p, and with p far above q."""
    low = 10.0 ** rng.uniform(-7, -3)
    rest = 10.0 ** rng.uniform(-7, 0, size=vocab - count)
    target = np.concatenate([np.array([low, 0.3])[:count], _shared(1 - low - 0.3 * (count - 1), rest)])
    rare = 10.0 ** rng.uniform(-6, -3)
    return target, np.concatenate([np.array([1 - rare, rare])[:count], np.zeros(vocab - count)])


def special_rows(  # noqa: PLR0917
    vocab: int,
    ids: Integers,
    kind: str,
    count: int,
    dtype: str,
    variant: int,
    tail: bool,  # noqa: FBT001
) -> RowPair:
    """Return rows of a kind in which only the tokens ``ids`` are possible, those that end a text drafted."""
    rng = stream(0, "shapes/models/special", vocab, count, variant)
    ends = rng.permutation(np.intersect1d(_ENDS, ids))
    ordered = np.concatenate([ends, rng.permutation(np.setdiff1d(ids, ends))])
    rows = []
    for few in model_rows(kind, len(ids), min(count, len(ids)), dtype, variant, tail):
        row = np.zeros(vocab)
        row[ordered] = few
        row.flags.writeable = False
        rows.append(row)
    return rows[0], rows[1]


_MAKERS: Final[dict[str, Maker]] = {
    "flat": _flat,
    "tiny": _tiny,
    "good-draft": _good,
    "zero": _zeros,
    "one-hot": _one_hot,
    "equal": _equal,
    "near": _near,
}
