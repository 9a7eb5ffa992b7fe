"""Lossless systems and functions that were reported as lossy; no check may fail one of them."""

from typing import Any

import numpy as np

from spec_oracle.specimens.drafting import Build
from spec_oracle.specimens.foreign.rows import Array, draw, loop, passes, per_request, residual
from spec_oracle.specimens.sources import source_of
from spec_oracle.specimens.specimen import PlainVerify, Specimen
from spec_oracle.specimens.toy_system import (
    Call,
    Floats,
    Ints,
    Limits,
    accepted_prefix,
    along,
    emission,
    race,
    token_rule,
    toy_system,
)


def _match(call: Call) -> tuple[Ints, Ints]:
    """Draw from the target at every position; accept drafts that equal the draw."""
    drawn = race(call.target, call.correct)
    accepted = accepted_prefix(drawn[:, :-1] == call.tokens)
    return emission(call.tokens, accepted, drawn[np.arange(len(drawn)), accepted]), accepted


def _two_siblings(call: Call) -> tuple[Ints, Ints]:
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


def _greedy(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:  # noqa: ARG001
    best = rows.argmax(axis=-1)
    return best, np.eye(rows.shape[-1])[best]


def _no_bonus(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    return loop(
        x[:-1],
        lambda i: passes(x, q, p, i, rng),
        lambda i: draw(residual(p[i], q[i]), rng),
        lambda: int(x[-1]) if passes(x, q, p, len(x) - 1, rng) else draw(residual(p[-2], q[-1]), rng),
    )


def _target_only(x: Array, q: Array, p: Array, rng: Any) -> list[int]:  # noqa: ARG001
    """Hand the kernel a q of zeros: accept with p(x), correct from p without x."""
    zeros = np.zeros(p.shape[1])

    def others(i: int) -> Array:
        struck = p[i] - zeros
        struck[x[i]] = 0
        return struck if struck.sum() > 0 else p[i]

    return loop(
        x, lambda i: rng.random() < p[i, x[i]], lambda i: draw(others(i), rng), lambda: draw(p[-1], rng)
    )


def _system(zoo_id: str, name: str, claim: str, build: Build, rule: str | None) -> Specimen:
    return Specimen(name, zoo_id, source_of(zoo_id), claim, (), system=build, rule=rule)


def _function(zoo_id: str, name: str, claim: str, verify: PlainVerify, rule: str | None) -> Specimen:
    return Specimen(name, zoo_id, source_of(zoo_id), claim, (), function=verify, rule=rule)


CONTROLS: tuple[Specimen, ...] = (
    _system("control", "system", "the correct system", toy_system, "token"),
    _system(
        "control-limits",
        "system-with-stop-and-budget",
        "the correct system with a stop token and a budget",
        lambda instance, entropy: toy_system(instance, entropy, limits=Limits(0, 4)),
        None,
    ),
    _system(
        "N1",
        "match-with-sampled-drafts",
        "accept if equal to a target sample is biased",
        lambda instance, entropy: toy_system(instance, entropy, verify=_match, rule="sample_and_match"),
        "sample_and_match",
    ),
    _system(
        "N3",
        "greedy-draft-and-match",
        "drafts greedy, target sampled, so the guarantee is lost",
        lambda instance, entropy: toy_system(instance, entropy, propose=_greedy, verify=_match, rule=None),
        None,
    ),
    _system(
        "N4",
        "greedy-draft-point-mass-rule",
        "a greedy drafter that reports a point mass",
        lambda instance, entropy: toy_system(
            instance, entropy, propose=_greedy, verify=token_rule, rule=None
        ),
        None,
    ),
    _system(
        "N5",
        "point-mass-rule-over-siblings",
        "q is taken to be 1",
        lambda instance, entropy: toy_system(
            instance, entropy, propose=_greedy, verify=_two_siblings, rule=None
        ),
        None,
    ),
    _system(
        "N7",
        "rows-with-later-drafts-present",
        "target rows are computed with later drafts present",
        lambda instance, entropy: toy_system(
            instance, entropy, target_rows=lambda rows, contexts: rows[contexts[:, ::-1]][:, ::-1]
        ),
        "token",
    ),
    _function(
        "N6",
        "zeros-for-q",
        "draft probabilities are zeros in the kernel",
        per_request(_target_only),
        "sample_and_match",
    ),
    _function("N10", "no-bonus", "no bonus token", per_request(_no_bonus), None),
)
