"""The rows of a shape: few likely drafts, and along them what a kind of rows is about.

A draft of many tokens, each with a coin of its own, would have too many outcomes to run. So most positions
are certain, target and draft alike: nothing is decided there. A few, others in every shape, are *open*: at
a *fork* two tokens are drafted, elsewhere one, and the target may want any token. One open position has
rows of the shape's kind, the others are good drafts, so that what comes after them is reached, too.

Tokens that are drafted or certain are mostly ids of interest: the first and last ones, powers of two and
their neighbours. In float64 the draft's row is positive everywhere, with 2^-40 a token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.shapes.axes import SPARSE, Shape
from spec_oracle.audit.shapes.kinds import (
    VARIANTS,
    RowPair,
    model_rows,
    one_hot,
    special_rows,
)
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Context
from verifiers import Paths, Siblings

_EASY: Final = 100
"""Work of a run up to which three positions are open; see `Shape.work`."""

_HARD: Final = 250
"""Work from which on only one position is open."""

_HARDEST: Final = 500
"""Work from which on one token is drafted there, instead of two, and what follows is certain."""

SPECIAL: Final = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 11, 50, 100, 101, 102, 103, 106, 107),
    *(32_000, 32_001, 32_007, 32_099, 50_256, 50_257, 50_264, 64_000, 64_001, 92_542, 92_543),
    *(100_257, 100_265, 100_276, 128_000, 128_001, 128_004, 128_008, 128_009, 128_256),
    *(129_279, 151_329, 151_336, 151_643, 151_644, 151_645, 151_646, 151_935),
)
"""Ids of begin, end, padding, unknown, mask and turn tokens: BERT, RoBERTa, GPT-2, T5, Llama 1 to 3, Mistral,
Phi, Gemma, Falcon, Yi, InternLM, GPT-4's cl100k, GLM-4, DeepSeek and Qwen."""


@dataclass(frozen=True)
class OpenPositions:
    """How many tokens are drafted at each open position; one of these has the ``special`` rows."""

    drafted: Mapping[int, int]
    special: int


def open_positions(shape: Shape, rng: np.random.Generator) -> OpenPositions:
    """Choose the open positions of a shape: the more a run costs, the fewer outcomes there are to run."""
    work = shape.work
    most = 1 if shape.is_brief or work > _HARD else 3 if work <= _EASY and shape.num_paths < 3 else 2
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


def wanted_of(shape: Shape, tree: DraftTree) -> DraftTree:
    """Return the tree with the target that is to be kept: of a greedy request, its likeliest tokens.

    Of equally likely ones that is the first.
    """
    if shape.is_greedy != "itself":
        return tree

    def rows(context: Context) -> RowPair:
        target, draft = tree.rows(context)
        return one_hot(shape.vocab_size, int(target.argmax())), draft

    return replace(tree, rows=rows)


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


def run_ids(shape: Shape) -> list[int]:
    """Return ids that are always run where the rows are about ids of special tokens: of many, a few."""
    ids = special_ids(shape.vocab_size).tolist() if shape.kind == "special" else []
    return ids[2:3] + ids[-2:] if shape.is_brief or shape.work > _EASY else ids


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


def among_others(drafts: Paths, shape: Shape, rng: np.random.Generator) -> Paths:
    """Return the batch of a shape with this request at its place.

    The others have one-hot targets, other ones at every position of every request: they cost no branches, and
    code that reads one of them emits what is impossible. Of a single path the draft has each of these tokens
    with probability 1/2, so that code which adds a little to it still decides nothing. So are the rows after
    the end of a draft that is shorter.
    """
    own = drafts.draft_length
    if shape.batch == 1 and own == shape.draft_length:
        return drafts
    ids = ids_of_interest(shape.vocab_size)
    size = (shape.batch, 1, shape.draft_length + 1)
    is_of_interest = rng.random(size) < 0.5
    certain = np.where(is_of_interest, rng.choice(ids, size), rng.integers(shape.vocab_size, size=size))
    target = np.zeros((*size, shape.vocab_size))
    np.put_along_axis(target, certain[..., None], 1.0, axis=-1)
    draft = target[:, :, :-1].copy()
    if shape.num_paths == 1:
        others = (certain + rng.integers(1, shape.vocab_size, size=size)) % shape.vocab_size
        draft /= 2
        np.put_along_axis(draft, others[..., :-1, None], 0.5, axis=-1)
    arrays = (certain[..., :-1], draft, target)
    batch = tuple(np.repeat(array, shape.num_paths, axis=1) for array in arrays)
    for array, given in zip(batch, (drafts.tokens, drafts.draft_probs, drafts.target_probs), strict=True):
        array[shape.request, :, : given.shape[2]] = given[0]
    return Paths(*batch)
