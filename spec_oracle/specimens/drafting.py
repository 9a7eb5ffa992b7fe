"""Faulty drafters, and verification against rows that plain decoding would not use.

The verifiers are right: draft tokens do not follow the q that is reported, or p is not the law of plain
decoding. Only a system that drafts for itself shows it.
"""

import itertools
from collections.abc import Callable

import numpy as np

from spec_oracle.specimens.sources import source_of
from spec_oracle.specimens.specimen import JOINT, Specimen
from spec_oracle.specimens.toy_system import (
    DEPTH,
    Call,
    Floats,
    Ints,
    TargetRows,
    ToySystem,
    race,
    token_rule,
    toy_system,
)
from spec_oracle.toy import Instance, ToyModel
from spec_oracle.toy.contexts import first_of_depth, rows_by_context

Process = Callable[[Floats], Floats]
Build = Callable[[Instance, int], ToySystem]

DRAFT_LAW = ("draft-law",)


def entry(zoo_id: str, name: str, defect: str, killers: tuple[str, ...], build: Build) -> Specimen:
    """Return the specimen of a faulty system."""
    return Specimen(name, zoo_id, source_of(zoo_id), defect, killers, system=build, rule="token")


# What decoders do to rows.


def normalised(rows: Floats) -> Floats:
    """Rescale rows to sum one."""
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def tempered(rows: Floats, temperature: float = 0.5) -> Floats:
    """Apply a temperature."""
    return normalised(rows ** (1 / temperature))


def top_two(rows: Floats) -> Floats:
    """Keep the two likeliest tokens; ties are kept too."""
    return normalised(np.where(rows >= np.sort(rows, axis=-1)[..., -2:-1], rows, 0.0))


def top_p(rows: Floats, mass: float = 0.6) -> Floats:
    """Keep the likeliest tokens up to the first that reaches ``mass``."""
    order = np.argsort(-rows, axis=-1, kind="stable")
    descending = np.take_along_axis(rows, order, axis=-1)
    kept = np.cumsum(descending, axis=-1) - descending < mass
    return normalised(np.where(np.take_along_axis(kept, np.argsort(order, axis=-1), axis=-1), rows, 0.0))


def with_target(instance: Instance, process: Process) -> Instance:
    """Return the instance whose plain decoding applies ``process`` to every row of the target."""
    rows = process(rows_by_context(instance.target, DEPTH))
    return _with_rows(instance, rows)


def _with_rows(instance: Instance, rows: Floats) -> Instance:
    starts = [first_of_depth(instance.vocab_size, depth) for depth in range(DEPTH + 2)]
    levels = tuple(rows[low:high] for low, high in itertools.pairwise(starts))
    return Instance(
        ToyModel(instance.vocab_size, levels), instance.draft, instance.draft_length, instance.num_paths
    )


def tokens_before(vocab: int) -> Ints:
    """Return how often each token stands in each context, int [N, V]."""
    counts = np.zeros((first_of_depth(vocab, DEPTH + 1), vocab), dtype=np.int64)
    for context in range(1, len(counts)):
        parent, token = divmod(context - 1, vocab)
        counts[context] = counts[parent]
        counts[context, token] += 1
    return counts


def penalised(rows: Floats, counts: Ints) -> Floats:
    """Make tokens less likely the more often they were used: a frequency penalty of log 2."""
    return normalised(rows * 0.5**counts)


def _from_table(base: Instance, process: Process) -> TargetRows:
    """Verify against the rows of ``base`` under another process than plain decoding applies."""
    table = process(rows_by_context(base.target, DEPTH))
    return lambda _, contexts: np.asarray(table[contexts])


def _processed(plain: Process, verified: Process) -> Build:
    """Return the system whose plain decoding and verification process rows in two ways."""

    def build(instance: Instance, entropy: int) -> ToySystem:
        return toy_system(with_target(instance, plain), entropy, target_rows=_from_table(instance, verified))

    return build


def _untouched(rows: Floats) -> Floats:
    return rows


# Faulty drafters.


def _proposing(propose: Callable[[Floats, Floats], tuple[Ints, Floats]]) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, propose=propose)


def _low_precision(rows: Floats) -> Floats:
    """Round to one bit of mantissa, as an eight-bit float of the coarsest kind does."""
    mantissa, exponent = np.frexp(rows)
    return normalised(np.ldexp(np.round(mantissa * 4) / 4, exponent))


def _race_in_place(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    noisy = -rows / np.log(uniforms)
    return noisy.argmax(axis=-1), noisy


def _ids_of_smaller_vocabulary(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    return np.minimum(race(rows, uniforms), rows.shape[1] - 2), rows


# Faulty rows.


def _bonus_only(instance: Instance, entropy: int) -> ToySystem:
    base = rows_by_context(instance.target, DEPTH)

    def rows(plain: Floats, contexts: Ints) -> Floats:
        return np.concatenate([base[contexts[:, :-1]], plain[contexts[:, -1:]]], axis=1)

    return toy_system(with_target(instance, top_p), entropy, target_rows=rows)


def _penalty(faulty: Callable[[Floats, Ints, int], TargetRows]) -> Build:
    """Return a system whose plain decoding has a frequency penalty; ``faulty`` makes the rows verified."""

    def build(instance: Instance, entropy: int) -> ToySystem:
        base, counts = rows_by_context(instance.target, DEPTH), tokens_before(instance.vocab_size)
        declared = _with_rows(instance, penalised(base, counts))
        return toy_system(declared, entropy, target_rows=faulty(base, counts, instance.vocab_size))

    return build


def _no_penalty(base: Floats, counts: Ints, vocab: int) -> TargetRows:  # noqa: ARG001
    return lambda _, contexts: np.asarray(base[contexts])


def _last_token_twice(base: Floats, counts: Ints, vocab: int) -> TargetRows:
    def rows(plain: Floats, contexts: Ints) -> Floats:
        later = contexts[:, 1:]
        used = counts[later] + (np.arange(vocab) == ((later - 1) % vocab)[:, :, None])
        return np.concatenate([plain[contexts[:, :1]], penalised(base[later], used)], axis=1)

    return rows


def _no_draft_probs(call: Call) -> tuple[Ints, Ints]:
    certain = np.eye(call.draft.shape[-1])[call.tokens]
    return token_rule(Call(call.tokens, certain, call.target, call.accept, call.correct))


def _rows_of_neighbour(call: Call) -> tuple[Ints, Ints]:
    shifted = np.roll(call.draft, 1, axis=1)
    return token_rule(Call(call.tokens, shifted, call.target, call.accept, call.correct))


DRAFTING: tuple[Specimen, ...] = (
    entry(
        "D1",
        "top-2-draft-reports-raw-q",
        "draws from the top two tokens, reports the raw row",
        DRAFT_LAW,
        _proposing(lambda rows, u: (race(top_two(rows), u), rows)),
    ),
    entry(
        "D2",
        "greedy-draft-reports-soft-q",
        "drafts the likeliest token, reports the soft row",
        DRAFT_LAW,
        _proposing(lambda rows, _: (rows.argmax(axis=-1), rows)),
    ),
    entry(
        "D-temperature",
        "drafts-at-another-temperature",
        "draws at T = 0.7, reports the row at T = 1",
        DRAFT_LAW,
        _proposing(lambda rows, u: (race(tempered(rows, 0.7), u), rows)),
    ),
    entry(
        "D3",
        "q-of-another-position",
        "verifies each draft with the q row of the position before",
        JOINT,
        lambda instance, entropy: toy_system(instance, entropy, verify=_rows_of_neighbour),
    ),
    entry(
        "D5",
        "drafts-in-low-precision",
        "draws from rounded probabilities, reports the exact ones",
        DRAFT_LAW,
        _proposing(lambda rows, u: (race(_low_precision(rows), u), rows)),
    ),
    entry(
        "D6",
        "race-divides-q-in-place",
        "the exponential race overwrites the row that is then reported",
        DRAFT_LAW,
        _proposing(_race_in_place),
    ),
    entry(
        "D8",
        "verifies-at-default-temperature",
        "plain decoding at T = 0.5, verification at T = 1",
        JOINT,
        _processed(tempered, _untouched),
    ),
    entry(
        "D9",
        "verifies-without-top-p",
        "the nucleus filter is not applied to rows of verification",
        JOINT,
        _processed(top_p, _untouched),
    ),
    entry(
        "D11",
        "q-never-passed",
        "probabilistic drafts verified by the point-mass rule",
        ("length",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_no_draft_probs),
    ),
    entry(
        "D12",
        "filters-in-another-order",
        "top-p after top-k has renormalised, instead of on the raw row",
        JOINT,
        _processed(
            lambda rows: normalised(np.minimum(top_two(rows), top_p(rows))), lambda r: top_p(top_two(r))
        ),
    ),
    entry(
        "D13",
        "q-in-draft-vocabulary",
        "draft ids are mapped to target ids, the q row is not",
        DRAFT_LAW,
        _proposing(lambda rows, u: (race(rows, u), np.roll(rows, 1, axis=-1))),
    ),
    entry(
        "D14",
        "ids-of-smaller-vocabulary",
        "the last token comes out as its neighbour",
        DRAFT_LAW,
        _proposing(_ids_of_smaller_vocabulary),
    ),
    entry(
        "G5",
        "shard-local-ids",
        "positions within a shard are used as token ids",
        DRAFT_LAW,
        _proposing(lambda rows, u: (race(rows, u) % 2, rows)),
    ),
    entry("H1", "filter-at-bonus-only", "top-p reaches the bonus row only", JOINT, _bonus_only),
    entry(
        "H2", "penalty-ignored", "verification ignores the frequency penalty", JOINT, _penalty(_no_penalty)
    ),
    entry(
        "H3",
        "last-token-penalised-twice",
        "from the second position on the last token counts twice",
        JOINT,
        _penalty(_last_token_twice),
    ),
)
