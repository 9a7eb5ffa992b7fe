"""Contexts as numbers: the root is 0, and token x leads from context n to n V + 1 + x.

So all contexts of up to D tokens are 0..N-1 without gaps, level by level and lexicographic within a level,
and arrays of texts of different lengths are plain integer arrays.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spec_oracle.toy.model import ToyModel

Contexts = NDArray[np.int64]


def first_of_depth(vocab_size: int, depth: int) -> int:
    """Return the number of the first context of ``depth`` tokens, which is how many are shorter."""
    return sum(vocab_size**d for d in range(depth))


def child(context: Contexts, token: Contexts, vocab_size: int) -> Contexts:
    """Return the contexts after one more token; where the token is negative (padding) they stay."""
    return np.where(token < 0, context, context * vocab_size + 1 + token)


def after_tokens(context: Contexts, tokens: Contexts, vocab_size: int) -> Contexts:
    """Return the contexts [B] after tokens int [B, N], padded with -1."""
    for position in range(tokens.shape[1]):
        context = child(context, tokens[:, position], vocab_size)
    return context


@lru_cache(maxsize=64)
def rows_by_context(model: ToyModel, depth: int) -> NDArray[np.float64]:
    """Return the rows of all contexts of up to ``depth`` tokens by number, [N, V], not writeable."""
    # Cached: every session of a toy system asks for them, and some checks open a thousand sessions.
    rows = np.concatenate([model.floats.rows(length) for length in range(depth + 1)])
    rows.flags.writeable = False
    return rows
