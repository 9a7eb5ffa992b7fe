"""Functions and engines whose requests or calls share random numbers, and right ones that look like them.

Most are a right token rule that is handed its uniforms, [B, L+1]; a part says where these come from. Each
request's law is right in all of them.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.foreign.rows import Array, token_by_request
from lab.specimens.foreign.uniforms import token_by_uniforms
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.toy_engine import Ints, Use, keyed_noise
from spec_oracle.contracts import SamplerFunction

Uniforms: TypeAlias = Callable[[Any, tuple[int, int]], Array]
"""(generator, (B, L+1)) -> uniforms."""


def from_uniforms(draw: Uniforms) -> SamplerFunction:
    """Return the token rule by these uniforms: one for each draft, the last for the token that follows."""
    return lambda x, q, p, generator: token_by_uniforms(
        x, q, p, draw(generator, (len(x), x.shape[1] + 1)), dtype=np.float64
    )


def made(make: Callable[[], Uniforms]) -> SamplerFunction:
    """Return the token rule by uniforms that remember."""
    return from_uniforms(make())


def shared(index: Callable[[Ints], Ints]) -> SamplerFunction:
    """Return the token rule in which request b decides by the uniforms of request ``index(b)``."""
    return from_uniforms(lambda generator, shape: generator.random(shape)[index(np.arange(shape[0]))])


# Between requests.


specimens_of("batch", declared="token", function=shared)(
    shared_at_distance_2=(
        "C11: Requests 2 apart share their numbers: groups of four keep two sets",
        lambda b: b - 2 * (b // 2 % 2),
    ),
)


@specimen("C13", "batch", declared="token", function=from_uniforms)
def stratified(generator: Any, shape: tuple[int, int]) -> Array:
    """Uniforms are stratified over the batch: every interval of length 1 / B has one."""
    return (
        generator.permuted(np.mgrid[: shape[0], : shape[1]][0], axis=0) + generator.random(shape)
    ) / shape[0]


@specimen("C13", "batch", declared="token", function=from_uniforms)
def antithetic(generator: Any, shape: tuple[int, int]) -> Array:
    """Every second request decides by 1 - u of the one before."""
    u = generator.random(shape)
    u[1::2] = np.nextafter(1.0, 0.0) - u[: shape[0] // 2 * 2 : 2]
    return u


# Between calls.


def _ring(laps: int) -> Uniforms:
    """Return uniforms from ``laps`` buffers in turn, each read twice before it is filled again."""
    buffers: dict[int, Array] = {}
    calls = 0

    def draw(generator: Any, shape: tuple[int, int]) -> Array:
        nonlocal calls
        slot, is_filled = calls % laps, calls // laps % 2 == 1
        calls += 1
        kept = buffers.get(slot)
        if not is_filled or kept is None or kept.shape != shape:
            buffers[slot] = generator.random(shape)
        return buffers[slot]

    return draw


specimens_of("calls", declared="token", function=made)(
    shared_2_calls_apart=(
        "C12: A call reads the numbers of the call before the last: two buffers, filled every second time",
        partial(_ring, 2),
    ),
    shared_64_calls_apart=(
        "C12: A call reads the numbers of the call 64 before: as many buffers, filled every second time",
        partial(_ring, 64),
    ),
)


@specimen("C12", "calls", declared="token", function=made)
def graph_of_33_replays() -> Uniforms:
    """The graph captured for batches of 33 replays the numbers that it was captured with."""
    captured: dict[tuple[int, int], Array] = {}

    def draw(generator: Any, shape: tuple[int, int]) -> Array:
        return (
            captured.setdefault(shape, generator.random(shape)) if shape[0] == 33 else generator.random(shape)
        )

    return draw


@specimen("C12", "calls", declared="token", function=lambda make: make())
def result_of_the_call_before_the_last() -> SamplerFunction:
    """The same requests get the result that they got in the call before the last, half of the time."""
    last: deque[tuple[tuple[Array, ...], tuple[Array, Array]]] = deque(maxlen=2)
    calls = 0

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        nonlocal calls
        result = token_by_request(x, q, p, generator)
        if calls % 4 > 1 and all(map(np.array_equal, last[0][0], (x, q, p))):
            result = last[0][1]
        last.append(((x.copy(), q.copy(), p.copy()), result))
        calls += 1
        return result

    return verify


# Right ones.


@specimen("control", declared="token", function=from_uniforms)
def blocks_of_a_counter_generator(generator: Any, shape: tuple[int, int]) -> Array:
    """Every block of 32 requests has a part of its own of one counter-based stream."""
    key = int(generator.integers(2**63))
    blocks = [
        np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, b])) for b in range(0, shape[0], 32)
    ]
    return np.concatenate([block.random((32, shape[1])) for block in blocks])[: shape[0]]


@specimen("control", declared="token", function=from_uniforms)
def hash_of_a_counter(generator: Any, shape: tuple[int, int]) -> Array:
    """Uniforms are hashes of a key and of counters that no two requests share."""
    key = int(generator.integers(2**61))
    return keyed_noise(key + np.arange(shape[0]), 0, Use.ACCEPT, (1, shape[1]))[:, 0]


@specimen("control", declared="token", function=made)
def buffer_for_each_size() -> Uniforms:
    """A buffer for each batch size, filled again in every call."""
    buffers: dict[tuple[int, int], Array] = {}

    def draw(generator: Any, shape: tuple[int, int]) -> Array:
        return generator.random(out=buffers.setdefault(shape, np.empty(shape)))

    return draw


@specimen("control", declared="token", function=from_uniforms)
def split_at_32(generator: Any, shape: tuple[int, int]) -> Array:
    """Batches beyond 32 run in parts, the last one first."""
    starts = range(0, shape[0], 32)
    parts = [generator.random((min(32, shape[0] - start), shape[1])) for start in reversed(starts)]
    return np.concatenate(parts[::-1])
