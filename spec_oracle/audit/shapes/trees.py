"""The next-token distributions of a shape: few drafts are likely, and few of their positions are open.

A draft of many tokens, each with an accept test of its own, would have too many outcomes to run. So most
positions are certain, target and draft alike: nothing is decided there. A few, others in every shape, are
*open*: one or two tokens are drafted there, and the target may want any token. One open position has rows
of the shape's kind, the others are good drafts, so that the positions after them are reached, too.

Tokens that are drafted or certain are mostly ids of interest: the first and last ones, powers of two and
their neighbours. In float64 the draft's row is positive everywhere, with 2^-40 a token.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.shapes.axes import SPARSE, Shape
from spec_oracle.audit.shapes.rounding import exact_row
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Context
from verifiers import Paths, Siblings

EASY: Final = 100
"""`Shape.work` up to which three positions are open."""

_HARD: Final = 250
"""`Shape.work` from which on one position is open."""

_HARDEST: Final = 500
"""`Shape.work` from which on one token is drafted there, instead of two, and all others are certain."""

SPECIAL: Final = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 11, 50, 100, 101, 102, 103, 106, 107),
    *(32_000, 32_001, 32_007, 32_099, 50_256, 50_257, 50_264, 64_000, 64_001, 92_542, 92_543),
    *(100_257, 100_265, 100_276, 128_000, 128_001, 128_004, 128_008, 128_009, 128_256),
    *(129_279, 151_329, 151_336, 151_643, 151_644, 151_645, 151_646, 151_935),
)
"""Ids of begin, end, padding, unknown, mask and turn tokens: BERT, RoBERTa, GPT-2, T5, Llama 1 to 3, Mistral,
Phi, Gemma, Falcon, Yi, InternLM, GPT-4's cl100k, GLM-4, DeepSeek and Qwen."""


RowPair: TypeAlias = tuple[Floats, Floats]
"""Rows [V] of target and draft."""

VARIANTS: Final = 3
"""Different rows of one kind at one size."""

_TAIL: Final = 1e-30
"""Weight of tokens that are possible, but so unlikely that no likely draft has one."""

_FEW: Final = 12
"""Tokens of large sparse rows."""

_ENDS: Final = (1, 2, 50_256, 128_001, 128_009, 151_643, 151_645)
"""Tokens that end a text, of Llama, Mistral, GPT-2 and Qwen."""


@dataclass(frozen=True)
class OpenPositions:
    """How many tokens are drafted at each open position; one of these has the ``special`` rows."""

    drafted: Mapping[int, int]
    special: int


def open_positions(shape: Shape, rng: np.random.Generator) -> OpenPositions:
    """Choose the open positions of a shape: the more a run costs, the fewer outcomes there are to run."""
    work = shape.work
    most = 1 if shape.is_brief or work > _HARD else 3 if work <= EASY and shape.num_paths < 3 else 2
    positions = rng.permutation(shape.draft_length)[:most]
    two = set(rng.permutation(positions)[: int(work <= _HARDEST)].tolist())
    special = int(rng.choice([*positions, shape.draft_length]))
    return OpenPositions({int(p): 1 + (int(p) in two) for p in positions}, special)


def tree_of(shape: Shape, seed: int, drafting: Siblings) -> DraftTree:
    """Return the rows of a shape, along all drafts of its request; the same seed gives the same ones."""
    shape = replace(shape, draft_length=shape.own_length)
    chosen = open_positions(shape, stream(seed, "shapes/open positions"))
    known: dict[Context, RowPair] = {}

    def rows(context: Context) -> RowPair:
        if context not in known:
            rng = stream(seed, "shapes/rows", *context)
            tail = drafting is Siblings.INDEPENDENT and shape.dtype == "float64"
            known[context] = _rows(shape, chosen, len(context), rng, tail=tail)
        return known[context]

    return DraftTree(shape.vocab_size, shape.draft_length, rows, shape.num_paths, drafting)


@dataclass(frozen=True)
class Place:
    """A shape, with the rows that a ``seed`` makes; ``drafting`` says how its paths are drawn."""

    shape: Shape
    seed: int
    drafting: Siblings

    @property
    def tree(self) -> DraftTree:
        """The rows along the likely drafts."""
        return _tree_at(self)

    @property
    def drafts(self) -> list[Paths]:
        """The likely drafts of the request, each alone."""
        return [self.tree.drafts(paths) for paths in self.tree.likely]

    @property
    def batch(self) -> Paths:
        """The likely drafts of the request as requests of one batch."""
        return Paths(*map(np.concatenate, zip(*(one.arrays for one in self.drafts), strict=True)))

    @property
    def chances(self) -> Floats:
        """The probability of each likely draft, given that it is one of them."""
        chances: Floats = np.array(list(self.tree.likely.values()))
        return np.asarray(chances / chances.sum())

    @property
    def wanted(self) -> DraftTree:
        """The tree with the target that is to be kept: of a greedy request, its likeliest tokens.

        Of equally likely ones that is the first.
        """
        tree = self.tree
        if self.shape.is_greedy != "itself":
            return tree

        def rows(context: Context) -> RowPair:
            target, draft = tree.rows(context)
            return one_hot(tree.vocab_size, int(target.argmax())), draft

        return replace(tree, rows=rows)


@lru_cache(maxsize=2)  # rows at full vocabularies take many megabytes
def _tree_at(place: Place) -> DraftTree:
    return tree_of(place.shape, place.seed, place.drafting)


def _rows(
    shape: Shape, chosen: OpenPositions, depth: int, rng: np.random.Generator, *, tail: bool
) -> RowPair:
    """Return the rows after a context of so many tokens."""
    vocab = shape.vocab_size
    alone = (shape.is_brief or shape.work > _HARDEST) and depth != chosen.special
    if (depth < shape.draft_length and depth not in chosen.drafted) or alone:
        certain = one_hot(vocab, int(_of_interest(vocab, 1, rng)[0]))
        return certain, certain
    count = min(chosen.drafted.get(depth, 1), vocab)
    kind = shape.kind if depth == chosen.special else "good-draft"
    variant = int(rng.integers(VARIANTS))
    if kind == "special" or (kind != shape.kind and shape.kind in SPARSE):
        of = "flat" if kind == "special" else kind
        return special_rows(vocab, special_ids(vocab), of, count, shape.dtype, variant, tail)
    target, draft = model_rows(kind, vocab, count, shape.dtype, variant, tail)
    ids = _of_interest(vocab, count, rng)
    shift = int(rng.integers(max(vocab - count, 1)))
    return tuple(_placed(row, ids, shift) for row in (target, draft))  # type: ignore[return-value]


def special_ids(vocab_size: int) -> Integers:
    """Return the ids below so many that common tokenizers give to special tokens, and the last id."""
    return np.unique([*(one for one in SPECIAL if one < vocab_size), vocab_size - 1])


def ids_of_interest(vocab_size: int) -> Integers:
    """Return the first and the last ids, those beside powers of two, and those of special tokens."""
    powers = 2 ** np.arange(vocab_size.bit_length())
    ids = np.concatenate([[0, vocab_size - 1], powers - 1, powers, powers + 1, SPECIAL])
    return np.unique(ids[ids < vocab_size])


def _of_interest(vocab_size: int, count: int, rng: np.random.Generator) -> Integers:
    """Choose different ids, mostly of interest."""
    interesting = ids_of_interest(vocab_size)
    some = rng.choice(interesting, min(count, len(interesting)), replace=False)
    ids = np.concatenate([some, rng.integers(vocab_size, size=1)])
    chosen = rng.permutation(np.unique(ids))[:count]
    return chosen if len(chosen) == count else interesting[:count]


def _placed(row: Floats, ids: Integers, shift: int) -> Floats:
    """Return the row with its first tokens at the places ``ids``, the others moved round."""
    placed, is_other = np.empty_like(row), np.full(len(row), fill_value=True)
    is_other[ids] = False
    placed[ids], placed[is_other] = row[: len(ids)], np.roll(row[len(ids) :], shift)
    return placed


# Kinds of rows: target and draft at the position that a shape is about, the drafted tokens first.


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
