"""Functions whose requests or calls share random numbers at some sizes only, and right ones of the same form.

All are a token rule, right for every single request. Random numbers are those of the generator that it is
handed, or of a counter generator of its own, which nobody can trace. At three tokens and three drafts nothing
is shared.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.specimens.foreign.rows import Array
from lab.specimens.foreign.uniforms import token_by_uniforms
from lab.specimens.specimen import specimens_of
from spec_oracle.contracts import SamplerFunction

Ints: TypeAlias = NDArray[np.int64]
Index: TypeAlias = Callable[[Ints, Ints, int], Ints]
"""(request [B, 1], position [L+1], L) -> the place of its uniform in the numbers of the call."""

_FEW: Final = 1_000
"""Tokens of a vocabulary up to which a path for small ones is taken."""


def mixed(counter: Array) -> Array:
    """Return the uniforms of a counter: splitmix64, in numpy's integers, which nobody can trace."""
    with np.errstate(over="ignore"):
        z = (counter.astype(np.uint64) + np.uint64(0x51ED)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Own:
    """A counter generator: each call reads numbers from ``offset`` on, then advances it."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self, index: Array, advance: int) -> Array:
        """Return the uniforms at these places of the call."""
        found = mixed(self.offset + index)
        self.offset += advance
        return found


def _places(shape: tuple[int, int]) -> tuple[Ints, Ints]:
    return np.arange(shape[0])[:, None], np.arange(shape[1])


def handed(index: Index) -> SamplerFunction:
    """Return the token rule that finds its uniforms at these places of what the generator filled."""

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        batch, length = x.shape
        where = index(*_places((batch, length + 1)), length)
        filled = generator.random(int(where.max()) + 1)
        return token_by_uniforms(x, q, p, filled[where], dtype=np.float64)

    return verify


def counted(index: Index) -> SamplerFunction:
    """Return the token rule that finds its uniforms at these places of its own counter generator."""
    own = Own()

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        batch, length = x.shape
        where = index(*_places((batch, length + 1)), length)
        return token_by_uniforms(x, q, p, own(where, int(where.max()) + 1), dtype=np.float64)

    return verify


def advancing(advance: Callable[[int, int], int]) -> SamplerFunction:
    """Return the token rule by an own generator that a call advances by so much, given B and L."""
    own = Own()

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        batch, length = x.shape
        request, position = _places((batch, length + 1))
        where = request * (length + 1) + position
        return token_by_uniforms(x, q, p, own(where, advance(batch, length)), dtype=np.float64)

    return verify


_OWN_GENERATOR: Final = ("streams",)
"""What fails a generator of one's own, which ignores the seed of a request."""

_RACE: Final = ("bad-input",)
"""What fails a race, whose token of NaN weights is the first one, whatever its probability."""


def _both_ways(
    handed_by: Any,
    own_by: Any,
    defects: Mapping[str, Any],
    controls: Mapping[str, Any],
    beside: tuple[str, ...] = (),
) -> None:
    """Register them by the generator that is handed over, and by one of their own."""
    for how, lift, ignored in (("handed", handed_by, beside), ("own", own_by, beside + _OWN_GENERATOR)):
        for checks, listed in (("batch",), defects), ((), controls):
            specimens_of(*checks, declared="token", function=lift, beside=ignored)(
                **{f"{how}_{name}": part for name, part in listed.items()}
            )


_BLOCKS = {
    "four_numbers_a_request": (
        "C16: Four random numbers a request: from the fourth draft on it reads those of the next one",
        lambda b, i, length: 4 * b + i,
    ),
    "eight_numbers_a_request": (
        "C16: Eight random numbers a request: from the eighth draft on it reads those of the next one",
        lambda b, i, length: 8 * b + i,
    ),
    "pairs_beyond_four_drafts": (
        "C16: From five drafts on, requests are taken in pairs, which read the same numbers",
        lambda b, i, length: (b // 2 if length > 4 else b) * (length + 1) + i,
    ),
}
_RIGHT = {
    "blocks_of_sixteen": (
        "control: Sixteen numbers a request, more where drafts are longer",
        lambda b, i, length: b * (length // 16 + 1) * 16 + i,
    ),
    "column_by_column": (
        "control: Random numbers lie column by column",
        lambda b, i, length: i * len(b) + b,
    ),
}
_both_ways(handed, counted, _BLOCKS, _RIGHT)

specimens_of("calls", declared="token", function=advancing)(
    own_offset_by_four_a_request=(
        "C17: The offset advances by four numbers a request: with more drafts the next call reads some again",
        lambda batch, length: 4 * batch,
    ),
)
specimens_of(declared="token", function=advancing, beside=_OWN_GENERATOR)(
    own_offset_by_a_page=(
        "control: The offset advances by whole pages of 4,096 numbers",
        lambda batch, length: (batch * (length + 1) // 4096 + 1) * 4096,
    )
)

specimens_of("batch", declared="token", function=handed)(
    handed_pool_of_4096=(
        "C11: Random numbers come from a pool of 4,096, which begins anew at its end",
        lambda b, i, length: (b * (length + 1) + i) % 4096,
    )
)
specimens_of(declared="token", function=handed)(
    handed_many_pools_of_4096=(
        "control: Random numbers come from as many pools of 4,096 as the requests need",
        lambda b, i, length: (b * (length + 1) + i) // 4096 * 4096 + (b * (length + 1) + i) % 4096,
    )
)

# Uniforms of sampled requests only, beside greedy ones.


def beside_greedy(row: Callable[[Ints, Ints], Ints]) -> SamplerFunction:
    """Return the token rule with uniforms [n, L+1] for the n sampled requests, given B and their numbers."""

    def verify(x: Array, q: Array, p: Array, generator: Any, is_greedy: Any = None) -> tuple[Array, Array]:
        greedy = np.zeros(len(x), dtype=bool) if is_greedy is None else is_greedy
        sampled = np.flatnonzero(~greedy)
        uniforms = generator.random((max(len(sampled), 1), x.shape[1] + 1))
        own = uniforms[np.clip(row(np.arange(len(x)), sampled), 0, len(uniforms) - 1)]
        certain = np.where(greedy[:, None, None], np.arange(p.shape[-1]) == p.argmax(axis=-1)[..., None], p)
        return token_by_uniforms(x, q, certain, own, dtype=np.float64)

    return verify


specimens_of("batch", declared="token", function=beside_greedy)(
    handed_rows_of_sampled_requests=(
        "C10: Only sampled requests have rows of uniforms, which are found by their number in the batch",
        lambda request, sampled: request,
    )
)
specimens_of(declared="token", function=beside_greedy)(
    handed_rows_by_rank=(
        "control: Only sampled requests have rows of uniforms, which are found by their rank among them",
        lambda request, sampled: np.searchsorted(sampled, request),
    )
)

# A race over the vocabulary for the token that follows.

Noise: TypeAlias = Callable[[Ints, Ints, int], Ints]
"""(row [N, 1], token [V], V) -> the place of its exponential."""


def _raced(accepted_by: Any, times: Any, x: Array, q: Array, p: Array) -> tuple[Array, Array]:
    """Accept by uniforms [B, L]; the next token wins a race of exponentials, ``times(is_refused)`` [B, V]."""
    batch, length = x.shape
    along = [np.take_along_axis(rows, x[..., None], 2)[..., 0] for rows in (p[:, :-1], q)]
    passed = np.array(accepted_by * along[1] < along[0], dtype=bool)
    tau = np.cumprod(passed, axis=1).sum(axis=1)
    rows = np.concatenate([np.maximum(p[:, :-1] - q, 0), p[:, -1:]], axis=1)[np.arange(batch), tau]
    with np.errstate(divide="ignore"):
        last = (times(tau < length) / rows).argmin(axis=1)
    emitted = np.where(np.arange(length + 1) < tau[:, None], np.pad(x, ((0, 0), (0, 1))), -1)
    emitted[np.arange(batch), tau] = last
    return emitted, tau


def racing(index: Noise) -> SamplerFunction:
    """Return the token rule whose race finds its exponentials at these places of what was sampled."""

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        vocab = p.shape[-1]

        def times(refused: Array) -> Array:
            where = index(*_places((len(x), vocab)), vocab)
            return generator.standard_exponential(int(where.max()) + 1)[where]

        return _raced(generator.random(x.shape), times, x, q, p)

    return verify


def racing_by_own(index: Noise, *, compacted: bool = False) -> SamplerFunction:
    """Return the same by an own generator; rows are numbered among those that were refused or accepted."""
    own = Own()

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        vocab = p.shape[-1]

        def times(refused: Array) -> Array:
            row, token = _places((len(x), vocab))
            if compacted:
                row = np.argsort(np.argsort(~refused, kind="stable"), kind="stable")[:, None]
            where = index(row, token, vocab)
            return -np.log1p(-own(where, int(where.max()) + 1))

        coins = own(np.arange(x.size).reshape(x.shape), x.size)
        return _raced(coins, times, x, q, p)

    return verify


_STRIDES = {
    "stride_of_1024_tokens": (
        "C16: Noise of a race has a stride of 1,024 tokens: larger vocabularies overlap",
        lambda b, v, vocab: 1024 * b + v,
    ),
}
_PAGES = {
    "stride_of_whole_pages": (
        "control: Noise has a stride of whole pages of 1,024 tokens",
        lambda b, v, vocab: (vocab + 1023) // 1024 * 1024 * b + v,
    )
}
_both_ways(racing, racing_by_own, _STRIDES, _PAGES, _RACE)

specimens_of(
    declared="token",
    function=lambda index: racing_by_own(index, compacted=True),
    beside=_OWN_GENERATOR + _RACE,
)(
    own_refused_first=(
        "control: Refused requests are compacted, each with noise of its own",
        lambda b, v, vocab: b * vocab + v,
    )
)
