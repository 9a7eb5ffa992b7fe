"""Lossless engines and functions that were reported as lossy; no check may fail one of them."""

from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, draw, passes, per_request, residual, token_rule
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.toy_engine import (
    Call,
    Floats,
    Ints,
    ToyEngine,
    accepted_prefix,
    along,
    emission,
    on_toys,
    race,
    replacing,
)
from spec_oracle.toy import Instance


@specimen("control", declared="token", engine=on_toys)
def system(instance: Instance) -> ToyEngine:
    """The correct engine on toy models."""
    return ToyEngine(instance)


@specimen("control", engine=on_toys)
def system_with_stop_and_budget(instance: Instance) -> ToyEngine:
    """The correct engine with a stop token."""
    return ToyEngine(instance, rule=None, stop_token=0)


@specimen("N1", declared="sample_and_match", engine=replacing("verify", rule="sample_and_match"))
def match_with_sampled_drafts(call: Call) -> tuple[Ints, Ints]:
    """Draw from the target at every position; accept drafts that equal the draw."""
    drawn = race(call.target, call.correct)
    accepted = accepted_prefix(drawn[:, :-1] == call.tokens)
    return emission(call.tokens, accepted, drawn[np.arange(len(drawn)), accepted]), accepted


def greedy(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draft the likeliest token and report a point mass."""
    best = rows.argmax(axis=-1)
    return best, np.eye(rows.shape[-1])[best]


@specimen("N3", engine=on_toys)
def greedy_draft_and_match(instance: Instance) -> ToyEngine:
    """Drafts greedy, target sampled: accept drafts that equal the draw."""
    return ToyEngine(instance, propose=greedy, verify=match_with_sampled_drafts, rule=None)


specimens_of(engine=replacing("propose", rule=None))(
    greedy_draft_point_mass_rule=("N4: A greedy drafter that reports a point mass", greedy)
)


@specimen("N5", engine=replacing("verify", propose=greedy, rule=None))
def point_mass_rule_over_siblings(call: Call) -> tuple[Ints, Ints]:
    """Try the draft with p(x), then a second token with what p leaves for it, then draw from the rest.

    The second token is the one after the draft, by number: any fixed choice will do.
    """
    accepted = accepted_prefix(call.accept < along(call.target, call.tokens))
    request, length = np.arange(len(accepted)), call.tokens.shape[1]
    first = call.tokens[request, np.minimum(accepted, length - 1)]
    rows = call.target[request, accepted]
    failed = (np.arange(rows.shape[1]) == first[:, None]) & (accepted < length)[:, None]
    left = np.where(failed, 0.0, rows)
    second = (first + 1) % rows.shape[1]
    chance = np.take_along_axis(left / left.sum(axis=1, keepdims=True), second[:, None], axis=1)[:, 0]
    rest = np.where(np.arange(rows.shape[1]) == second[:, None], 0.0, left)
    coin, clocks = call.correct[request, accepted, 0], call.correct[request, accepted - 1]
    drawn = np.where(coin < chance, second, race(rest, clocks))
    return emission(call.tokens, accepted, drawn), accepted


@specimen("N7", declared="token", engine=replacing("target_rows"))
def rows_with_later_drafts_present(rows: Floats, contexts: Ints) -> Floats:
    """Target rows are computed with later drafts present."""
    return rows[contexts[:, ::-1]][:, ::-1]


@specimen("N10", function=per_request)
def no_bonus(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """No bonus token."""

    def last() -> int:
        return int(x[-1]) if passes(x, q, p, len(x) - 1, rng) else draw(residual(p[-2], q[-1]), rng)

    return token_rule(x[:-1], q, p, rng, bonus=last)


@specimen("N6", declared="sample_and_match", function=per_request)
def zeros_for_q(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Hand the kernel a q of zeros: accept with p(x), correct from p without x."""
    zeros = np.zeros(p.shape[1])

    def others(i: int) -> Array:
        struck = p[i] - zeros
        struck[x[i]] = 0
        return struck if struck.sum() > 0 else p[i]

    return token_rule(
        x, q, p, rng, accept=lambda i: rng.random() < p[i, x[i]], correct=lambda i: draw(others(i), rng)
    )
