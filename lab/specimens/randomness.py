"""Engines that use their random numbers wrongly: shared, replayed, not keyed by the request's seed.

The law of a single call is right in most of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lab.specimens import toy_engine as toy
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.toy_engine import Call, Ints, ToyEngine, Use, own_seeds, replacing, token_rule
from spec_oracle.toy import Instance


def keyed_by(key: Callable[[Ints, int, Use], tuple[Ints, int, Use]]) -> toy.Engines:
    """Return what makes engines whose noise has another key, given the right one: (seeds, call, use)."""
    return replacing("noise")(lambda seeds, call, use, shape: toy.keyed_noise(*key(seeds, call, use), shape))


specimens_of("joint", declared="token", engine=keyed_by)(
    one_key_for_all_noise=(
        "C1: Draft, accept and recovery noise are keyed by the same seed and position",
        lambda seeds, call, use: (seeds, call, Use.DRAFT),
    ),
    draft_noise_accepts=(
        "C1: The accept test reads the noise that drew the draft",
        lambda seeds, call, use: (seeds, call, Use.DRAFT if use is Use.ACCEPT else use),
    ),
    draft_noise_recovers=(
        "C2: Recovery reads the noise that drew the draft",
        lambda seeds, call, use: (seeds, call, Use.DRAFT if use is Use.CORRECT else use),
    ),
)
specimens_of("calls", declared="token", engine=keyed_by)(
    calls_replay=(
        "C9: The random offset is not advanced between calls",
        lambda seeds, call, use: (seeds, 0, use),
    ),
    accept_replays=(
        "C9: The offset of the accept uniforms is not advanced between calls",
        lambda seeds, call, use: (seeds, 0 if use is Use.ACCEPT else call, use),
    ),
    offset_wraps_after_3_calls=(
        "C12: The fourth call of a request repeats the noise of its first",
        lambda seeds, call, use: (seeds, call % 3, use),
    ),
)
specimens_of("batch", declared="token", engine=keyed_by)(
    seed_of_another_request=(
        "C10: Accept uniforms are keyed by another request's seed",
        lambda seeds, call, use: (np.roll(seeds, 1) if use is Use.ACCEPT else seeds, call, use),
    )
)


@specimen("C4", "streams", declared="token", engine=replacing("seeding"))
def unseeded_requests_start_alike(requested: Sequence[int | None]) -> Ints:
    """Requests without a seed all start from the same state."""
    return np.array([1234 + i if seed is None else seed for i, seed in enumerate(requested)], dtype=np.int64)


specimens_of("batch", declared="token", engine=replacing("seeding"))(
    one_seed_for_the_batch=(
        "C5: The first request's seed serves the whole batch",
        lambda requested: np.full(len(requested), own_seeds(requested)[0]),
    )
)
specimens_of("streams", declared="token", engine=replacing("seeding"))(
    seeded_by_the_clock=(
        "D10: The request's seed is ignored",
        lambda requested: own_seeds([None] * len(requested)),
    )
)


@specimen("B12", "batch", declared="token", engine=replacing("seeding"))
def unseeded_noise_not_written(requested: Sequence[int | None]) -> Ints:
    """In batches that mix both, requests without a seed get no noise of their own."""
    seeds = own_seeds(requested)
    missing = np.array([seed is None for seed in requested])
    return seeds if missing.all() else np.where(missing, 0, seeds)


@specimen("C6", "streams", declared="token", engine=toy.on_toys)
def accept_from_global_generator(instance: Instance) -> ToyEngine:
    """Accept uniforms ignore the request's seed."""
    clock = np.random.default_rng()

    def noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> toy.Floats:
        if use is Use.ACCEPT:
            return clock.random((len(seeds), *shape))
        return toy.keyed_noise(seeds, call, use, shape)

    return ToyEngine(instance, noise=noise)


@specimen("C7", "length", declared="token", engine=replacing("verify"))
def ranks_disagree(call: Call) -> tuple[Ints, Ints]:
    """Another rank with other uniforms reports the accepted length."""
    emitted, _ = token_rule(call)
    return emitted, token_rule(replace(call, accept=call.accept[:, ::-1]))[1]
