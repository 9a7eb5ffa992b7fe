"""Functions whose requests or calls share random numbers at some sizes only, and right ones of the same form.

All are a token rule, right for every single request. Random numbers are those of the generator that it is
handed, or of a counter generator of its own, which nobody can trace. At three tokens and three drafts nothing
is shared.
"""

from collections.abc import Callable
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


_LONG_DRAFTS: Final = "sharing of random numbers is looked for at two drafts a request"
"""Why these survive."""

specimens_of(survives=_LONG_DRAFTS, declared="token", function=handed)(
    handed_four_numbers_a_request=(
        "C16: Four random numbers a request: from the fourth draft on it reads those of the next one",
        lambda b, i, length: 4 * b + i,
    )
)
specimens_of(declared="token", function=handed)(
    handed_blocks_of_sixteen=(
        "control: Sixteen numbers a request, more where drafts are longer",
        lambda b, i, length: b * (length // 16 + 1) * 16 + i,
    ),
    handed_column_by_column=(
        "control: Random numbers lie column by column",
        lambda b, i, length: i * len(b) + b,
    ),
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
