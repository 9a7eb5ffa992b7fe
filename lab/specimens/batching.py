"""Engines and functions in which a request's result depends on other requests of the batch."""

from dataclasses import replace
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, draw, residual, token_by_request
from lab.specimens.specimen import itself, specimen, specimens_of
from lab.specimens.toy_engine import Call, Ints, replacing, token_rule

# Engines.


engines: dict[str, Any] = {"declared": "token", "engine": replacing("verify")}
specimens_of("batch", **engines)(
    cached_q_not_reordered=(
        "D17: Cached q rows stay in the old order of the batch",
        lambda call: token_rule(replace(call, draft=call.draft[::-1])),
    ),
    rows_of_previous_request=(
        "D15: Target rows are those of the request before",
        lambda call: token_rule(replace(call, target=np.roll(call.target, 1, axis=0))),
    ),
    capacity_of_two=(
        "D20: From the third slot on, q is another request's",
        lambda call: token_rule(replace(call, draft=call.draft[np.arange(len(call.tokens)) % 2])),
    ),
)


@specimen("E11", "batch", **engines)
def results_in_another_order(call: Call) -> tuple[Ints, Ints]:
    """Emissions come back sorted by length."""
    emitted, accepted = token_rule(call)
    order = np.argsort(accepted, kind="stable")
    return emitted[order], accepted[order]


@specimen("A15", "batch", **engines)
def padded_slot_inverts_rows(call: Call) -> tuple[Ints, Ints]:
    """A batch of odd size gets a padded slot whose temperature of -1 turns all rows upside down."""
    if len(call.tokens) % 2 == 0:
        return token_rule(call)
    inverted = 1 / np.maximum(call.target, 1e-3)
    return token_rule(replace(call, target=inverted / inverted.sum(axis=-1, keepdims=True)))


# Functions.


@specimen("C5", "batch", declared="token", function=itself)
def one_uniform_vector_for_the_batch(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """All requests decide by the same uniforms."""
    state = generator.bit_generator.state

    def alone(*request: Array) -> tuple[Array, Array]:
        generator.bit_generator.state = state
        return token_by_request(*(rows[None] for rows in request), generator)

    tokens, accepted = zip(*map(alone, x, q, p), strict=True)
    return np.concatenate(tokens), np.concatenate(accepted)


@specimen("C10", "batch", declared="token", function=itself)
def overlapping_uniforms(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Uniforms of a request are read from its number on, not from its number times L."""
    batch, length = x.shape
    u = generator.random(batch + length)
    tokens, accepted = np.full((batch, length + 1), -1), np.zeros(batch, dtype=int)
    for b in range(batch):
        tau = 0
        while tau < length and u[b + tau] * q[b, tau, x[b, tau]] < p[b, tau, x[b, tau]]:
            tau += 1
        weights = p[b, -1] if tau == length else residual(p[b, tau], q[b, tau])
        tokens[b, : tau + 1], accepted[b] = [*x[b, :tau], draw(weights, generator)], tau
    return tokens, accepted


@specimen("D18", "batch", declared="token", function=itself)
def one_certain_draft_switches_all(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One request with a point-mass q turns the whole batch to the point-mass rule."""
    certain = 1.0 * (np.arange(q.shape[-1]) == x[..., None])
    return token_by_request(x, certain if (q.max(axis=-1) == 1).any() else q, p, generator)


@specimen("A14", "batch", declared="token", function=itself)
def one_greedy_request_makes_all_greedy(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One request at temperature 0 (a point-mass p) makes the whole batch greedy."""
    best = 1.0 * (np.arange(p.shape[-1]) == p.argmax(axis=-1)[..., None])
    return token_by_request(x, q, best if (p.max(axis=-1) == 1).any() else p, generator)


@specimen("B11", "batch", declared="token", function=itself)
def rows_times_positions(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Corrections are written to every (row, position) pair of the batch instead of to matching ones."""
    tokens, accepted = token_by_request(x, q, p, generator)
    corrections = np.take_along_axis(tokens, accepted[:, None], axis=1)
    tokens[:, np.unique(accepted)] = corrections
    return np.where(np.arange(tokens.shape[1]) <= accepted[:, None], tokens, -1), accepted
