"""Systems that use their random numbers wrongly: shared, replayed, not keyed by the request's seed.

The law of a single call is right in most of them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lab.specimens.specimen import itself, specimen
from lab.specimens.toy_system import (
    Call,
    Floats,
    Ints,
    ToySystem,
    Use,
    keyed_noise,
    own_seeds,
    replacing,
    token_rule,
    toy_system,
)
from spec_oracle.toy import Instance


@specimen("C1", "joint", rule="token", system=replacing("noise"))
def one_key_for_all_noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """Draft, accept and recovery noise are keyed by the same seed and position."""
    return keyed_noise(seeds, call, Use.DRAFT, shape)


@specimen("C1", "joint", rule="token", system=replacing("noise"))
def draft_noise_accepts(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """The accept test reads the noise that drew the draft."""
    return keyed_noise(seeds, call, Use.DRAFT if use is Use.ACCEPT else use, shape)


@specimen("C2", "joint", rule="token", system=replacing("noise"))
def draft_noise_recovers(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """Recovery reads the noise that drew the draft."""
    return keyed_noise(seeds, call, Use.DRAFT if use is Use.CORRECT else use, shape)


@specimen("C4", "streams", rule="token", system=replacing("seeding"))
def unseeded_requests_start_alike(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    """Requests without a seed all start from the same state."""
    return np.array([1234 + i if seed is None else seed for i, seed in enumerate(requested)], dtype=np.int64)


@specimen("C5", "batch", rule="token", system=replacing("seeding"))
def one_seed_for_the_batch(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    """The first request's seed serves the whole batch."""
    return np.full(len(requested), own_seeds(requested, entropy)[0])


@specimen("C6", "streams", rule="token", system=itself)
def accept_from_global_generator(instance: Instance, entropy: int) -> ToySystem:
    """Accept uniforms ignore the request's seed."""
    clock = np.random.default_rng()

    def noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
        if use is Use.ACCEPT:
            return clock.random((len(seeds), *shape))
        return keyed_noise(seeds, call, use, shape)

    return toy_system(instance, entropy, noise=noise)


@specimen("D10", "streams", rule="token", system=replacing("seeding"))
def seeded_by_the_clock(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    """The request's seed is ignored."""
    return own_seeds([None] * len(requested), entropy)


@specimen("C7", "length", rule="token", system=replacing("verify"))
def ranks_disagree(call: Call) -> tuple[Ints, Ints]:
    """Another rank with other uniforms reports the accepted length."""
    emitted, _ = token_rule(call)
    return emitted, token_rule(replace(call, accept=call.accept[:, ::-1]))[1]


@specimen("C9", "calls", rule="token", system=replacing("noise"))
def calls_replay(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """The random offset is not advanced between calls."""
    return keyed_noise(seeds, 0, use, shape)


@specimen("C9", "calls", rule="token", system=replacing("noise"))
def accept_replays(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """The offset of the accept uniforms is not advanced between calls."""
    return keyed_noise(seeds, 0 if use is Use.ACCEPT else call, use, shape)


@specimen("C10", "batch", rule="token", system=replacing("noise"))
def seed_of_a_batch_mate(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """Accept uniforms are keyed by another request's seed."""
    return keyed_noise(np.roll(seeds, 1) if use is Use.ACCEPT else seeds, call, use, shape)


@specimen("B12", "batch", rule="token", system=replacing("seeding"))
def unseeded_noise_not_written(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    """In batches that mix both, requests without a seed get no noise of their own."""
    seeds = own_seeds(requested, entropy)
    missing = np.array([seed is None for seed in requested])
    return seeds if missing.all() else np.where(missing, 0, seeds)
