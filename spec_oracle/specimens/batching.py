"""Systems and functions in which a request's result depends on its batch mates."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spec_oracle.specimens.drafting import Build, entry
from spec_oracle.specimens.foreign.controls import token_rule as token_by_decisions
from spec_oracle.specimens.foreign.rows import Array, draw, per_request, residual
from spec_oracle.specimens.sources import source_of
from spec_oracle.specimens.specimen import PlainVerify, Specimen
from spec_oracle.specimens.toy_system import Call, Ints, token_rule, toy_system

BATCH = ("batch",)

token_by_request = per_request(token_by_decisions)
"""The token rule under the plain contract, request by request."""


# Systems.


def _verifying(verify: Callable[[Call], tuple[Ints, Ints]]) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, verify=verify)


def _rows_after_reordering(call: Call) -> tuple[Ints, Ints]:
    return token_rule(replace(call, draft=call.draft[::-1]))


def _wrong_slice(call: Call) -> tuple[Ints, Ints]:
    return token_rule(replace(call, target=np.roll(call.target, 1, axis=0)))


def _capacity_of_two(call: Call) -> tuple[Ints, Ints]:
    slot = np.arange(len(call.tokens)) % 2
    return token_rule(replace(call, draft=call.draft[slot]))


def _sorted_by_length(call: Call) -> tuple[Ints, Ints]:
    emitted, accepted = token_rule(call)
    order = np.argsort(accepted, kind="stable")
    return emitted[order], accepted[order]


def _padded_to_even(call: Call) -> tuple[Ints, Ints]:
    """A batch of odd size gets a padded slot whose temperature of -1 turns all rows upside down."""
    if len(call.tokens) % 2 == 0:
        return token_rule(call)
    inverted = 1 / np.maximum(call.target, 1e-3)
    return token_rule(replace(call, target=inverted / inverted.sum(axis=-1, keepdims=True)))


# Functions.


def _shared_uniforms(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One vector of uniforms for the whole batch."""
    state = generator.bit_generator.state
    tokens, accepted = np.full((len(x), x.shape[1] + 1), -1), np.zeros(len(x), dtype=int)
    for b in range(len(x)):
        generator.bit_generator.state = state
        tokens[b : b + 1], accepted[b : b + 1] = token_by_request(
            x[b : b + 1], q[b : b + 1], p[b : b + 1], generator
        )
    return tokens, accepted


def _overlapping_uniforms(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
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


def _certain_draft_switches_all(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One request with a point-mass q turns the whole batch to the point-mass rule."""
    certain = 1.0 * (np.arange(q.shape[-1]) == x[..., None])
    return token_by_request(x, certain if (q.max(axis=-1) == 1).any() else q, p, generator)


def _greedy_mate(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """One request at temperature 0 (a point-mass p) makes the whole batch greedy."""
    best = 1.0 * (np.arange(p.shape[-1]) == p.argmax(axis=-1)[..., None])
    return token_by_request(x, q, best if (p.max(axis=-1) == 1).any() else p, generator)


def _rows_times_positions(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Corrections are written to every (row, position) pair of the batch instead of to matching ones."""
    tokens, accepted = token_by_request(x, q, p, generator)
    corrections = np.take_along_axis(tokens, accepted[:, None], axis=1)
    tokens[:, np.unique(accepted)] = corrections
    return np.where(np.arange(tokens.shape[1]) <= accepted[:, None], tokens, -1), accepted


def _function(zoo_id: str, name: str, defect: str, verify: PlainVerify) -> Specimen:
    return Specimen(name, zoo_id, source_of(zoo_id), defect, BATCH, function=verify, rule="token")


BATCHING: tuple[Specimen, ...] = (
    entry(
        "A15",
        "padded-slot-inverts-rows",
        "a padded slot turns the rows of its batch upside down",
        BATCH,
        _verifying(_padded_to_even),
    ),
    entry(
        "D15",
        "rows-of-previous-request",
        "target rows are those of the request before",
        BATCH,
        _verifying(_wrong_slice),
    ),
    entry(
        "D17",
        "cached-q-not-reordered",
        "cached q rows stay in the old order of the batch",
        BATCH,
        _verifying(_rows_after_reordering),
    ),
    entry(
        "D20",
        "capacity-of-two",
        "from the third slot on, q is another request's",
        BATCH,
        _verifying(_capacity_of_two),
    ),
    entry(
        "E11",
        "results-in-another-order",
        "emissions come back sorted by length",
        BATCH,
        _verifying(_sorted_by_length),
    ),
    _function(
        "C5-function",
        "one-uniform-vector-for-the-batch",
        "all requests decide by the same uniforms",
        _shared_uniforms,
    ),
    _function("C10-function", "overlapping-uniforms", "neighbours share uniforms", _overlapping_uniforms),
    _function(
        "D18",
        "one-certain-draft-switches-all",
        "a mate without q turns q off for all",
        _certain_draft_switches_all,
    ),
    _function(
        "A14", "one-greedy-mate-makes-all-greedy", "a mate at temperature 0 makes all greedy", _greedy_mate
    ),
    _function(
        "B11", "rows-times-positions", "corrections overwrite those of other requests", _rows_times_positions
    ),
)
