"""Faulty drafters, and verification against rows that plain decoding would not use.

The verifiers are right: draft tokens do not follow the q that is reported, or p is not the law of plain
decoding. Only an engine, which drafts for itself, shows it.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lab.specimens.contexts import first_of_depth, rows_by_context
from lab.specimens.specimen import specimen
from lab.specimens.toy_engine import (
    DEPTH,
    Call,
    Engines,
    Floats,
    Ints,
    TargetRows,
    ToyEngine,
    on_toys,
    race,
    replacing,
    token_rule,
)
from spec_oracle.toy import Instance, ToyModel

Process = Callable[[Floats], Floats]

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


def with_target(instance: Instance, rows: Floats) -> Instance:
    """Return the instance whose plain decoding has these rows, by context [N, V]."""
    starts = [first_of_depth(instance.vocab_size, depth) for depth in range(DEPTH + 2)]
    levels = tuple(rows[low:high] for low, high in itertools.pairwise(starts))
    return replace(instance, target=ToyModel(instance.vocab_size, levels))


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


# Faulty drafters.


@specimen("D1", "draft-law", rule="token", engine=replacing("propose"))
def top_2_draft_reports_raw_q(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draws from the top two tokens, reports the raw row."""
    return race(top_two(rows), uniforms), rows


@specimen("D2", "draft-law", rule="token", engine=replacing("propose"))
def greedy_draft_reports_soft_q(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Drafts the likeliest token, reports the soft row."""
    return rows.argmax(axis=-1), rows


@specimen("D1", "draft-law", rule="token", engine=replacing("propose"))
def drafts_at_another_temperature(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draws at T = 0.7, reports the row at T = 1."""
    return race(tempered(rows, 0.7), uniforms), rows


@specimen("D3", "joint", rule="token", engine=replacing("verify"))
def q_of_another_position(call: Call) -> tuple[Ints, Ints]:
    """Verifies each draft with the q row of the position before."""
    return token_rule(replace(call, draft=np.roll(call.draft, 1, axis=1)))


@specimen("D5", "draft-law", rule="token", engine=replacing("propose"))
def drafts_in_low_precision(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draws from probabilities rounded to one bit of mantissa, reports the exact ones."""
    mantissa, exponent = np.frexp(rows)
    return race(normalised(np.ldexp(np.round(mantissa * 4) / 4, exponent)), uniforms), rows


@specimen("D6", "draft-law", rule="token", engine=replacing("propose"))
def race_divides_q_in_place(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """The exponential race overwrites the row that is then reported."""
    noisy = -rows / np.log(uniforms)
    return noisy.argmax(axis=-1), noisy


@specimen("D11", "length", rule="token", engine=replacing("verify"))
def q_never_passed(call: Call) -> tuple[Ints, Ints]:
    """Probabilistic drafts are verified by the point-mass rule."""
    return token_rule(replace(call, draft=np.eye(call.draft.shape[-1])[call.tokens]))


@specimen("D13", "draft-law", rule="token", engine=replacing("propose"))
def q_in_draft_vocabulary(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draft ids are mapped to target ids, the q row is not."""
    return race(rows, uniforms), np.roll(rows, 1, axis=-1)


@specimen("D14", "draft-law", rule="token", engine=replacing("propose"))
def ids_of_smaller_vocabulary(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """The last token comes out as its neighbour."""
    return np.minimum(race(rows, uniforms), rows.shape[1] - 2), rows


@specimen("G5", "draft-law", rule="token", engine=replacing("propose"))
def shard_local_ids(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Positions within a shard are used as token ids."""
    return race(rows, uniforms) % 2, rows


# Rows of verification that plain decoding would not use.


def _declaring(plain: Process) -> Callable[[Process], Engines]:
    """Return what makes engines whose target-only decoding applies ``plain`` of another process."""

    def lift(verified: Process) -> Engines:
        def build(instance: Instance) -> ToyEngine:
            table = verified(rows_by_context(instance.target, DEPTH))
            declared = with_target(instance, plain(rows_by_context(instance.target, DEPTH)))
            return ToyEngine(declared, target_rows=lambda _, contexts: np.asarray(table[contexts]))

        return on_toys(build)

    return lift


@specimen("D8", "joint", rule="token", engine=_declaring(tempered))
def verifies_at_default_temperature(rows: Floats) -> Floats:
    """Plain decoding at T = 0.5, verification at T = 1."""
    return rows


@specimen("D9", "joint", rule="token", engine=_declaring(top_p))
def verifies_without_top_p(rows: Floats) -> Floats:
    """The nucleus filter is not applied to rows of verification."""
    return rows


@specimen(
    "D12", "joint", rule="token", engine=_declaring(lambda r: normalised(np.minimum(top_two(r), top_p(r))))
)
def filters_in_another_order(rows: Floats) -> Floats:
    """Top-p after top-k has renormalised, instead of on the raw row."""
    return top_p(top_two(rows))


@specimen("H1", "joint", rule="token", engine=on_toys)
def filter_at_bonus_only(instance: Instance) -> ToyEngine:
    """Top-p reaches the bonus row only."""
    base = rows_by_context(instance.target, DEPTH)

    def rows(plain: Floats, contexts: Ints) -> Floats:
        return np.concatenate([base[contexts[:, :-1]], plain[contexts[:, -1:]]], axis=1)

    return ToyEngine(with_target(instance, top_p(base)), target_rows=rows)


def _penalising(faulty: Callable[[Floats, Ints], TargetRows]) -> Engines:
    """Return engines whose plain decoding has a frequency penalty; ``faulty`` makes the rows verified."""

    def build(instance: Instance) -> ToyEngine:
        base, counts = rows_by_context(instance.target, DEPTH), tokens_before(instance.vocab_size)
        declared = with_target(instance, penalised(base, counts))
        return ToyEngine(declared, target_rows=faulty(base, counts))

    return on_toys(build)


@specimen("H2", "joint", rule="token", engine=_penalising)
def penalty_ignored(base: Floats, counts: Ints) -> TargetRows:
    """Verification ignores the frequency penalty."""
    return lambda _, contexts: np.asarray(base[contexts])


@specimen("H3", "joint", rule="token", engine=_penalising)
def last_token_penalised_twice(base: Floats, counts: Ints) -> TargetRows:
    """From the second position on the last token counts twice."""
    vocab = base.shape[1]

    def rows(plain: Floats, contexts: Ints) -> Floats:
        later = contexts[:, 1:]
        used = counts[later] + (np.arange(vocab) == ((later - 1) % vocab)[:, :, None])
        return np.concatenate([plain[contexts[:, :1]], penalised(base[later], used)], axis=1)

    return rows
