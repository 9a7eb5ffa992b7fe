"""Systems that use their random numbers wrongly: shared, replayed, not keyed by the request's seed.

The law of a single call is right in most of them.
"""

from collections.abc import Sequence

import numpy as np

from spec_oracle.specimens.drafting import Build, entry
from spec_oracle.specimens.specimen import Specimen
from spec_oracle.specimens.toy_system import (
    Call,
    Floats,
    Ints,
    Noise,
    Seeding,
    Use,
    keyed_noise,
    own_seeds,
    token_rule,
    toy_system,
)


def _noisy(noise: Noise) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, noise=noise)


def _seeded(seeding: Seeding) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, seeding=seeding)


def _one_key_for_all_uses(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:  # noqa: ARG001
    return keyed_noise(seeds, call, Use.DRAFT, shape)


def _drafter_shares(shared: Use) -> Noise:
    """Return noise in which one use reads the drafter's stream."""

    def noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
        return keyed_noise(seeds, call, Use.DRAFT if use is shared else use, shape)

    return noise


def _call_not_counted(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:  # noqa: ARG001
    return keyed_noise(seeds, 0, use, shape)


def _accept_not_counted(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    return keyed_noise(seeds, 0 if use is Use.ACCEPT else call, use, shape)


def _neighbours_seed(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    return keyed_noise(np.roll(seeds, 1) if use is Use.ACCEPT else seeds, call, use, shape)


def _global_generator() -> Noise:
    clock = np.random.default_rng()

    def noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
        return (
            clock.random((len(seeds), *shape)) if use is Use.ACCEPT else keyed_noise(seeds, call, use, shape)
        )

    return noise


def _same_start(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:  # noqa: ARG001
    return np.array([1234 + i if seed is None else seed for i, seed in enumerate(requested)], dtype=np.int64)


def _clock(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    return own_seeds([None] * len(requested), entropy)


def _first_seed_for_all(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    return np.full(len(requested), own_seeds(requested, entropy)[0])


def _unseeded_rows_not_written(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    seeds = own_seeds(requested, entropy)
    missing = np.array([seed is None for seed in requested])
    return seeds if missing.all() else np.where(missing, 0, seeds)


def _ranks_disagree(call: Call) -> tuple[Ints, Ints]:
    emitted, _ = token_rule(call)
    other_rank = Call(call.tokens, call.draft, call.target, call.accept[:, ::-1], call.correct)
    return emitted, token_rule(other_rank)[1]


_ALL: tuple[tuple[str, str, str, tuple[str, ...], Build], ...] = (
    (
        "C1",
        "one-key-for-all-noise",
        "draft, accept and recovery noise are keyed by the same seed and position",
        ("joint",),
        _noisy(_one_key_for_all_uses),
    ),
    (
        "C1-accept",
        "draft-noise-accepts",
        "the accept test reads the noise that drew the draft",
        ("joint",),
        _noisy(_drafter_shares(Use.ACCEPT)),
    ),
    (
        "C2",
        "draft-noise-recovers",
        "recovery reads the noise that drew the draft",
        ("joint",),
        _noisy(_drafter_shares(Use.CORRECT)),
    ),
    (
        "C4",
        "unseeded-requests-start-alike",
        "requests without a seed all start from the same state",
        ("streams",),
        _seeded(_same_start),
    ),
    (
        "C5",
        "one-seed-for-the-batch",
        "the first request's seed serves the whole batch",
        ("batch",),
        _seeded(_first_seed_for_all),
    ),
    (
        "C6",
        "accept-from-global-generator",
        "accept uniforms ignore the request's seed",
        ("streams",),
        lambda instance, entropy: toy_system(instance, entropy, noise=_global_generator()),
    ),
    ("D10", "seeded-by-the-clock", "the request's seed is ignored", ("streams",), _seeded(_clock)),
    (
        "C7",
        "ranks-disagree",
        "another rank with other uniforms reports the accepted length",
        ("length",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_ranks_disagree),
    ),
    (
        "C9",
        "calls-replay",
        "the random offset is not advanced between calls",
        ("calls",),
        _noisy(_call_not_counted),
    ),
    (
        "C9-accept",
        "accept-replays",
        "the offset of the accept uniforms is not advanced between calls",
        ("calls",),
        _noisy(_accept_not_counted),
    ),
    (
        "C10",
        "seed-of-a-batch-mate",
        "accept uniforms are keyed by another request's seed",
        ("batch",),
        _noisy(_neighbours_seed),
    ),
    (
        "B12",
        "unseeded-noise-not-written",
        "in batches that mix both, requests without a seed get no noise of their own",
        ("batch",),
        _seeded(_unseeded_rows_not_written),
    ),
)

RANDOMNESS: tuple[Specimen, ...] = tuple(entry(*fields) for fields in _ALL)
