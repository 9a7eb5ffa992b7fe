"""Lossless verifiers in unusual dress: a checker that flags one of them is wrong."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import (
    Array,
    after,
    block_weights,
    draw,
    invert,
    last_success,
    loop,
    passes,
    per_request,
    residual,
    stop_chances,
)
from lab.specimens.specimen import specimen
from spec_oracle.contracts import SamplerFunction


def drawing(draw: Callable[[Array, Any], int]) -> SamplerFunction:
    """Return the token rule that draws tokens so, a function of (weights, rng)."""

    def rule(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
        return loop(
            x,
            lambda i: passes(x, q, p, i, rng),
            lambda i: draw(residual(p[i], q[i]), rng),
            lambda: draw(p[-1], rng),
        )

    return per_request(rule)


@specimen("control", rule="token", function=drawing)
def token_rule(weights: Array, rng: Any) -> int:
    """Accept with min(1, p/q), correct from the residual."""
    return draw(weights, rng)


@specimen("N9", rule="token", function=per_request)
def recycled_uniform(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """One uniform for everything, rescaled to (0, 1) after each test."""
    u = rng.random()
    for i, token in enumerate(x):
        ratio = min(p[i, token] / q[i, token], 1.0)
        if np.isnan(ratio):
            raise ValueError("draft_probs: NaN")
        if u >= ratio:
            return [*x[:i], invert(residual(p[i], q[i]), (u - ratio) / (1 - ratio))]
        u = u / ratio
    return [*x, invert(p[-1], u)]


@specimen("control", rule="token", function=drawing)
def exponential_race(weights: Array, rng: Any) -> int:
    """Draw tokens as argmax of weights over exponential noise."""
    noise = rng.exponential(size=len(weights))
    return int(np.where(weights > 0, weights / noise, 0.0).argmax())  # noise may be 0


@specimen("control", rule="token", function=drawing)
def gumbel_race(weights: Array, rng: Any) -> int:
    """Draw tokens as argmax of log weights plus Gumbel noise made from uniforms."""
    support = np.flatnonzero(weights)
    noise = -np.log(-np.log(rng.random(len(support))))
    return int(support[np.argmax(np.log(weights[support]) + noise)])


@specimen("control", rule="token", function=per_request)
def inverse_cdf(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """All uniforms up front, tokens by inversion of the cumulative weights."""
    u = rng.random(len(x) + 1)
    return loop(
        x,
        lambda i: u[i] < p[i, x[i]] / q[i, x[i]],
        lambda i: invert(residual(p[i], q[i]), u[-1]),
        lambda: invert(p[-1], u[-1]),
    )


@specimen("N2", rule="sample_and_match", function=per_request)
def sample_and_match(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw from the target at every position and stop at the first token that is not the draft's."""
    emitted: list[int] = []
    for i, row in enumerate(p):
        emitted.append(draw(row, rng))
        if i == len(x) or emitted[-1] != x[i]:
            break
    return emitted


@specimen("N8", rule="sample_and_match", function=per_request)
def point_mass(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Treat the draft as certain: accept with p(x), correct from p without x."""
    token = np.arange(p.shape[1])
    return loop(
        x,
        lambda i: rng.random() < p[i, x[i]],
        lambda i: draw(np.where(token == x[i], 0.0, p[i]), rng),
        lambda: draw(p[-1], rng),
    )


@specimen("control", rule="token", function=per_request)
def log_space(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Accept when log(1 - u) is below the log ratio."""
    return loop(
        x,
        lambda i: p[i, x[i]] > 0 and np.log(1 - rng.random()) < np.log(p[i, x[i]]) - np.log(q[i, x[i]]),
        lambda i: draw(residual(p[i], q[i]), rng),
        lambda: draw(p[-1], rng),
    )


@specimen("control", rule="token", function=per_request)
def python_random(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Randomness from Python's ``random``; tests 1 - u."""
    vocabulary = range(p.shape[1])
    return loop(
        x,
        lambda i: bool(1 - random.random() < p[i, x[i]] / q[i, x[i]]),  # noqa: S311
        lambda i: random.choices(vocabulary, residual(p[i], q[i]).tolist())[0],  # noqa: S311
        lambda: random.choices(vocabulary, p[-1].tolist())[0],  # noqa: S311
    )


@specimen("control", rule="token", function=per_request)
def legacy_numpy(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Randomness from the legacy functions of ``numpy.random``."""
    return loop(
        x,
        lambda i: np.random.rand() < p[i, x[i]] / q[i, x[i]],  # noqa: NPY002
        lambda i: draw(residual(p[i], q[i]), np.random),
        lambda: draw(p[-1], np.random),
    )


@specimen("control", rule="block", function=per_request)
def block_rule(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Block verification."""
    w = block_weights(x, q, p)
    tau = last_success(stop_chances(w, q, p), rng)
    return after(x, q, p, tau, w[tau], rng)
