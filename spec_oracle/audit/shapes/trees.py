"""The rows of a shape: few likely drafts, and along them what a kind of rows is about.

A draft of many tokens, each with a coin of its own, would have too many outcomes to run. So most positions
are certain, target and draft alike: nothing is decided there. A few, others in every shape, are *open*: at
a *fork* two tokens are drafted, elsewhere one, and the target may want any token. One open position has
rows of the shape's kind, the others are good drafts, so that what comes after them is reached, too.

Tokens that are drafted or certain are mostly ids of interest: the first and last ones, powers of two and
their neighbours. In float64 the draft's row is positive everywhere, with 2^-40 a token.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.shapes.axes import KINDS, Shape
from spec_oracle.audit.shapes.rounding import exact_row
from spec_oracle.audit.streams import stream
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.toy import Context
from verifiers import Drafting, Drafts

Floats: TypeAlias = NDArray[np.float64]
RowPair: TypeAlias = tuple[Floats, Floats]
"""Rows [V] of target and draft."""

VARIANTS: Final = 3
"""Different rows of one kind at one size."""

_SMALL: Final = 50_000
"""Numbers of a shape up to which four positions are open."""

_SHORT: Final = 300
"""The same for positions of all requests: each of them may cost a loop."""

_TAIL: Final = 1e-30
"""Weight of what is possible, but is not to count."""

_FEW: Final = 12
"""Tokens of large sparse rows."""


@dataclass(frozen=True)
class OpenPositions:
    """How many tokens are drafted at each open position; one of these has the ``special`` rows."""

    drafted: Mapping[int, int]
    special: int


def open_positions(shape: Shape, rng: np.random.Generator) -> OpenPositions:
    """Choose the open positions of a shape."""
    positions_of_all = shape.batch * shape.num_paths * (shape.draft_length + 1)
    small = shape.numbers <= _SMALL and positions_of_all <= _SHORT
    count = (4 if shape.num_paths < 3 else 2) if small else 2
    forks = 2 if small and shape.num_paths == 1 else 1
    positions = rng.permutation(shape.draft_length)[:count]
    two = set(rng.permutation(positions)[:forks].tolist())
    special = int(rng.choice([*positions, shape.draft_length]))
    return OpenPositions({int(p): 1 + (int(p) in two) for p in positions}, special)


def tree_of(shape: Shape, seed: int, drafting: Drafting) -> DraftTree:
    """Return the rows of a shape; the same seed gives the same ones."""
    chosen = open_positions(shape, stream(seed, "shapes/open positions"))
    known: dict[Context, RowPair] = {}

    def rows(context: Context) -> RowPair:
        if context not in known:
            rng = stream(seed, "shapes/rows", *context)
            tail = drafting is Drafting.INDEPENDENT and shape.dtype == "float64"
            known[context] = _rows(shape, chosen, len(context), rng, tail=tail)
        return known[context]

    return DraftTree(shape.vocab_size, shape.draft_length, rows, shape.num_paths, drafting)


def _rows(
    shape: Shape, chosen: OpenPositions, depth: int, rng: np.random.Generator, *, tail: bool
) -> RowPair:
    """Return the rows after a context of so many tokens."""
    vocab = shape.vocab_size
    if depth < shape.draft_length and depth not in chosen.drafted:
        certain = _one(vocab, int(_of_interest(vocab, 1, rng)[0]))
        return certain, certain
    count = min(chosen.drafted.get(depth, 1), vocab)
    kind = shape.kind if depth == chosen.special else "good-draft"
    target, draft = _model_rows(kind, vocab, count, shape.dtype, int(rng.integers(VARIANTS)), tail)
    ids = _of_interest(vocab, count, rng)
    shift = int(rng.integers(max(vocab - count, 1)))
    return tuple(_placed(row, ids, shift) for row in (target, draft))  # type: ignore[return-value]


def ids_of_interest(vocab_size: int) -> NDArray[np.int64]:
    """Return the first and the last ids, and those beside powers of two."""
    powers = 2 ** np.arange(vocab_size.bit_length())
    ids = np.concatenate([[0, vocab_size - 1], powers - 1, powers, powers + 1])
    return np.unique(ids[ids < vocab_size])


def _of_interest(vocab_size: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose different ids, mostly of interest."""
    interesting = ids_of_interest(vocab_size)
    some = rng.choice(interesting, min(count, len(interesting)), replace=False)
    ids = np.concatenate([some, rng.integers(vocab_size, size=1)])
    chosen = rng.permutation(np.unique(ids))[:count]
    return chosen if len(chosen) == count else interesting[:count]


def _placed(row: Floats, ids: NDArray[np.int64], shift: int) -> Floats:
    """Return the row with its first tokens at the places ``ids``, the others moved round."""
    count = len(ids)
    placed = np.concatenate([row[:count], np.roll(row[count:], shift)])
    # Swap one after the other: an id may be among the first places itself.
    where = list(range(count))
    for slot, wanted in enumerate(ids.tolist()):
        source = where[slot]
        placed[[source, wanted]] = placed[[wanted, source]]
        where = [source if place == wanted else place for place in where]
        where[slot] = wanted
    return placed


@lru_cache(maxsize=512)
def _model_rows(  # noqa: PLR0917
    kind: str,
    vocab: int,
    count: int,
    dtype: str,
    variant: int,
    tail: bool,  # noqa: FBT001
) -> RowPair:
    """Return rows of a kind whose first ``count`` tokens are the drafted ones."""
    rng = stream(0, "shapes/models", vocab, count, variant, KINDS.index(kind))
    target, draft = _MAKERS[kind](vocab, count, rng)
    if tail and kind != "zero":
        draft[draft == 0] = _TAIL
    rows = exact_row(target, dtype), exact_row(draft, dtype)
    for row in rows:
        row.flags.writeable = False
    return rows


Maker: TypeAlias = Callable[[int, int, np.random.Generator], RowPair]


def _one(vocab: int, token: int) -> Floats:
    """Return the row in which a token is certain."""
    row = np.zeros(vocab)
    row[token] = 1.0
    return row


def _shared(mass: float, weights: NDArray[np.floating[Any]]) -> Floats:
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


def _peaked(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """One token has most of the target, the others have less and less."""
    ranks = 1.0 / (1.0 + rng.permutation(vocab - count)) ** 1.5
    drafted = np.array([0.7, 0.1])[:count]
    target = np.concatenate([drafted, _shared(1 - drafted.sum(), ranks)])
    return target, np.concatenate([np.array([0.4, 0.6])[:count], np.zeros(vocab - count)])


def _reversed(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """What is drafted most is wanted least."""
    drafted = np.array([0.05, 0.35])[:count]
    target = np.concatenate([drafted, _shared(1 - drafted.sum(), _even(vocab - count, rng))])
    return target, np.concatenate([np.array([0.9, 0.1])[:count], np.zeros(vocab - count)])


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
        return _one(vocab, int(rng.integers(count + (vocab > count)))), draft
    return target, _one(vocab, 0)


def _equal(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """Target and draft are alike."""
    row = np.concatenate([_even(count, rng), np.zeros(vocab - count)])
    return row, row.copy()


def _tiny(vocab: int, count: int, rng: np.random.Generator) -> RowPair:
    """Probabilities and ratios over seven decades: tokens with q far above p, and with p far above q."""
    low = 10.0 ** rng.uniform(-7, -3)
    rest = 10.0 ** rng.uniform(-7, 0, size=vocab - count)
    target = np.concatenate([np.array([low, 0.3])[:count], _shared(1 - low - 0.3 * (count - 1), rest)])
    rare = 10.0 ** rng.uniform(-6, -3)
    return target, np.concatenate([np.array([1 - rare, rare])[:count], np.zeros(vocab - count)])


_MAKERS: Final[dict[str, Maker]] = {
    "flat": _flat,
    "tiny": _tiny,
    "good-draft": _good,
    "zero": _zeros,
    "peaked": _peaked,
    "reversed": _reversed,
    "one-hot": _one_hot,
    "equal": _equal,
}


def among_others(drafts: Drafts, shape: Shape, rng: np.random.Generator) -> Drafts:
    """Return the batch of a shape with this request at its place.

    The others have one-hot distributions, target and draft alike, other ones at every position of every
    request: they cost no branches, and code that reads one of them emits what is impossible.
    """
    if shape.batch == 1:
        return drafts
    ids = ids_of_interest(shape.vocab_size)
    size = (shape.batch, 1, shape.draft_length + 1)
    is_of_interest = rng.random(size) < 0.5
    certain = np.where(is_of_interest, rng.choice(ids, size), rng.integers(shape.vocab_size, size=size))
    target = np.zeros((*size, shape.vocab_size))
    np.put_along_axis(target, certain[..., None], 1.0, axis=-1)
    arrays = (certain[..., :-1], target[:, :, :-1], target)
    batch = tuple(np.repeat(array, shape.num_paths, axis=1) for array in arrays)
    for array, own in zip(batch, (drafts.tokens, drafts.draft_probs, drafts.target_probs), strict=True):
        array[shape.request] = own[0]
    return Drafts(*batch)
