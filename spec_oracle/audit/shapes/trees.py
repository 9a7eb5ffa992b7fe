"""What a shape is, a size and a form of the arrays, and its next-token distributions.

Few drafts are likely. A draft of many tokens, each with an accept test of its own, would have too many
outcomes to run. So most positions are certain, target and draft alike: nothing is decided there. A few,
others in every shape, are *open*: one or two tokens are drafted there, and the target may want any token.
One open position has rows of the shape's kind, the others are good drafts, so that the positions after them
are reached, too.

Tokens that are drafted or certain are mostly ids of interest: the first and last ones, powers of two and
their neighbours. In float64 the draft's row is positive everywhere, with 2^-40 a token.

Number types. Every probability of the input is a number of its type, and every row sums to exactly one. So
the target is exact, and only results of the code's own arithmetic are rounded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Context
from verifiers import Siblings

NOT_GIVEN: Final = "not given"
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "draft_lengths": (NOT_GIVEN, "full", "ragged", "short", "empty"),
    "is_greedy": (NOT_GIVEN, "nobody", "others", "every second other", "itself"),
    "generators": (NOT_GIVEN, "others", "itself", "all"),
}
"""Values of the optional arguments of samplers: which requests of a batch are short, greedy or seeded.

*Itself* is the request that is judged. It has all L drafted tokens, the first half of them (*short*), or none
(*empty*); the others have all (*full*), or from none to all (*ragged*).
"""

SPARSE: Final = ("special", "zero", "equal")
"""Kinds in which few tokens are possible, at any vocabulary; the other rows of the shape are sparse, too."""

_NUMBERS_A_POSITION: Final = 500
"""Numbers that cost about as much as one position, for which traced code takes about 0.1 ms."""

_RUN_OF_SPARSE, _RUN_AT_MOST = 16, 300
"""Tokens that are run one by one: of sparse rows, and at most."""


@dataclass(frozen=True)
class Shape:
    """A size and a form of the arrays, the request that is judged, and the kind of its distributions.

    At a *brief* one, tried for pairs of values, one position is open, and few sampled ids are run.
    """

    vocab_size: int
    draft_length: int
    num_paths: int = 1
    batch: int = 1
    place: str = "first"
    dtype: str = "float64"
    ids: str = "int64"
    layout: str = "contiguous"
    kind: str = "flat"
    is_brief: bool = False
    draft_lengths: str = NOT_GIVEN
    is_greedy: str = NOT_GIVEN
    generators: str = NOT_GIVEN

    @property
    def own_length(self) -> int:
        """How many tokens are drafted for the request that is judged."""
        return {"short": self.draft_length // 2, "empty": 0}.get(self.draft_lengths, self.draft_length)

    @property
    def options(self) -> dict[str, str]:
        """The optional arguments that are given."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in given.items() if value != NOT_GIVEN}

    @property
    def numbers(self) -> int:
        """How many probabilities the arguments of one call have."""
        return self.batch * self.num_paths * (2 * self.draft_length + 1) * self.vocab_size

    @property
    def positions(self) -> int:
        """How many positions all paths of all requests have, the bonus included."""
        return self.batch * self.num_paths * (self.draft_length + 1)

    @property
    def work(self) -> float:
        """About what the runs of a shape cost, in positions: tokens that are run one by one add to it."""
        outcomes = min(self.vocab_size, _RUN_OF_SPARSE if self.kind in SPARSE else _RUN_AT_MOST)
        return self.positions + self.numbers / _NUMBERS_A_POSITION + outcomes

    @property
    def request(self) -> int:
        """The place of the request in its batch."""
        return {"first": 0, "second": min(1, self.batch - 1), "middle": self.batch // 2}.get(
            self.place, self.batch - 1
        )

    def __str__(self) -> str:
        special = (
            f"request {self.request} of {self.batch}" * (self.batch > 1),
            self.dtype,
            self.ids if self.ids != "int64" else "",
            self.layout if self.layout != "contiguous" else "",
            *(f"{name} {value}" for name, value in self.options.items()),
            f"{self.kind} probabilities",
        )
        sizes = f"V {self.vocab_size}, L {self.draft_length}, K {self.num_paths}"
        return ", ".join([sizes, *filter(None, special)])


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


DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Binary digits of the significand, the leading one included."""

LOWEST: Final = {"float64": -40, "float32": -40, "float16": -24, "bfloat16": -24}
"""Probabilities are multiples of 2 to this power: those of float16 reach no further, and few laws differ."""


def exact_row(weights: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Return a law [V] nearly in proportion to ``weights``: exact in the type, and of sum exactly one.

    Tokens of positive weight keep a positive probability. Few tokens of a type with few digits cannot be as
    unlikely as many can: what is left of one must be a number of the type, too.

    >>> exact_row(np.array([0.1, 0.3, 0.0, 1e-9]), "bfloat16").tolist()
    [0.2490234375, 0.75, 0.0, 0.0009765625]
    """
    digits = DIGITS[dtype]
    for power in range(-LOWEST[dtype], 0, -1):
        counts = _counts(weights, 1 << power, digits)
        if counts is not None:
            row: NDArray[np.float64] = np.ldexp(counts, -power)
            return row
    raise AssertionError(f"{len(weights)} tokens have no distribution in {dtype}")


def _counts(weights: NDArray[np.float64], units: int, digits: int) -> NDArray[np.int64] | None:
    """Return so many units, shared out in numbers of so many digits; None where this way does not work."""
    law = weights / weights.sum() * units
    tiny, others = (law > 0) & (law < 2), law >= 2
    counts = tiny.astype(np.int64)
    counts[others] = law[others] * ((units - int(tiny.sum())) / law[others].sum())
    steps = _steps(counts, digits)
    counts -= counts % steps
    # Every token lost less than its step: one step more for some of them, the largest first, gives it back.
    missing = units - int(counts.sum())
    for step in sorted(set(steps[counts > 0].tolist()), reverse=True):
        chosen = np.flatnonzero((steps == step) & (counts > 0))[: max(missing // step, 0)]
        counts[chosen] += step
        missing -= step * len(chosen)
    return counts if missing == 0 else None


def _steps(counts: NDArray[np.int64], digits: int) -> NDArray[np.int64]:
    """Return the spacing of numbers with so many digits at each of the counts."""
    lengths = np.frexp(counts.astype(np.float64))[1]
    steps: NDArray[np.int64] = np.left_shift(1, np.maximum(lengths - digits, 0))
    return steps
