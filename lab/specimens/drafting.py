"""Faulty drafters, and verification against rows that plain decoding would not use.

The verifiers are right: draft tokens do not follow the q that is reported, or p is not the law of plain
decoding. Only an engine, which drafts for itself, shows it.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lab.specimens import toy_engine as toy
from lab.specimens.contexts import first_of_depth, rows_by_context
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.toy_engine import DEPTH, Floats, Ints, TargetRows, ToyEngine, race, replacing, token_rule
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


specimens_of("draft-law", declared="token", engine=replacing("propose"))(
    top_2_draft_reports_raw_q=(
        "D1: Draws from the top two tokens, reports the raw row",
        lambda rows, uniforms: (race(top_two(rows), uniforms), rows),
    ),
    greedy_draft_reports_soft_q=(
        "D2: Drafts the likeliest token, reports the soft row",
        lambda rows, uniforms: (rows.argmax(axis=-1), rows),
    ),
    drafts_at_another_temperature=(
        "D1: Draws at T = 0.7, reports the row at T = 1",
        lambda rows, uniforms: (race(tempered(rows, 0.7), uniforms), rows),
    ),
    q_in_draft_vocabulary=(
        "D13: Draft ids are mapped to target ids, the q row is not",
        lambda rows, uniforms: (race(rows, uniforms), np.roll(rows, 1, axis=-1)),
    ),
    ids_of_smaller_vocabulary=(
        "D14: The last token comes out as its neighbour",
        lambda rows, uniforms: (np.minimum(race(rows, uniforms), rows.shape[1] - 2), rows),
    ),
    shard_local_ids=(
        "G5: Positions within a shard are used as token ids",
        lambda rows, uniforms: (race(rows, uniforms) % 2, rows),
    ),
)


@specimen("D5", "draft-law", declared="token", engine=replacing("propose"))
def drafts_in_low_precision(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draws from probabilities rounded to one bit of mantissa, reports the exact ones."""
    mantissa, exponent = np.frexp(rows)
    return race(normalised(np.ldexp(np.round(mantissa * 4) / 4, exponent)), uniforms), rows


@specimen("D6", "draft-law", declared="token", engine=replacing("propose"))
def race_divides_q_in_place(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """The exponential race overwrites the row that is then reported."""
    noisy = -rows / np.log(uniforms)
    return noisy.argmax(axis=-1), noisy


specimens_of("joint", declared="token", engine=replacing("verify"))(
    q_of_another_position=(
        "D3: Verifies each draft with the q row of the position before",
        lambda call: token_rule(replace(call, draft=np.roll(call.draft, 1, axis=1))),
    )
)
specimens_of("length", declared="token", engine=replacing("verify"))(
    q_never_passed=(
        "D11: Probabilistic drafts are verified by the point-mass rule",
        lambda call: token_rule(replace(call, draft=np.eye(call.draft.shape[-1])[call.tokens])),
    )
)


# Rows of verification that plain decoding would not use.


def _declaring(plain: Process) -> Callable[[Process], toy.Engines]:
    """Return what makes engines whose target-only decoding applies ``plain`` of another process."""

    def lift(verified: Process) -> toy.Engines:
        def build(instance: Instance) -> ToyEngine:
            table = verified(rows_by_context(instance.target, DEPTH))
            declared = with_target(instance, plain(rows_by_context(instance.target, DEPTH)))
            return ToyEngine(declared, target_rows=lambda _, contexts: np.asarray(table[contexts]))

        return toy.on_toys(build)

    return lift


joint = partial(specimens_of, "joint", declared="token")
joint(engine=_declaring(tempered))(
    verifies_at_default_temperature=(
        "D8: Plain decoding at T = 0.5, verification at T = 1",
        lambda rows: rows,
    )
)
joint(engine=_declaring(top_p))(
    verifies_without_top_p=(
        "D9: The nucleus filter is not applied to rows of verification",
        lambda rows: rows,
    )
)
joint(engine=_declaring(lambda rows: normalised(np.minimum(top_two(rows), top_p(rows)))))(
    filters_in_another_order=(
        "D12: Top-p after top-k has renormalised, instead of on the raw row",
        lambda rows: top_p(top_two(rows)),
    )
)


@specimen("H1", "joint", declared="token", engine=toy.on_toys)
def filter_at_bonus_only(instance: Instance) -> ToyEngine:
    """Top-p reaches the bonus row only."""
    base = rows_by_context(instance.target, DEPTH)

    def rows(plain: Floats, contexts: Ints) -> Floats:
        return np.concatenate([base[contexts[:, :-1]], plain[contexts[:, -1:]]], axis=1)

    return ToyEngine(with_target(instance, top_p(base)), target_rows=rows)


def _penalising(faulty: Callable[[Floats, Ints], TargetRows]) -> toy.Engines:
    """Return engines whose plain decoding has a frequency penalty; ``faulty`` makes the rows verified."""

    def build(instance: Instance) -> ToyEngine:
        base, counts = rows_by_context(instance.target, DEPTH), tokens_before(instance.vocab_size)
        declared = with_target(instance, penalised(base, counts))
        return ToyEngine(declared, target_rows=faulty(base, counts))

    return toy.on_toys(build)


joint(engine=_penalising)(
    penalty_ignored=(
        "H2: Verification ignores the frequency penalty",
        lambda base, counts: lambda _, contexts: np.asarray(base[contexts]),
    )
)


@specimen("H3", "joint", declared="token", engine=_penalising)
def last_token_penalised_twice(base: Floats, counts: Ints) -> TargetRows:
    """From the second position on the last token counts twice."""
    vocab = base.shape[1]

    def rows(plain: Floats, contexts: Ints) -> Floats:
        later = contexts[:, 1:]
        used = counts[later] + (np.arange(vocab) == ((later - 1) % vocab)[:, :, None])
        return np.concatenate([plain[contexts[:, :1]], penalised(base[later], used)], axis=1)

    return rows
