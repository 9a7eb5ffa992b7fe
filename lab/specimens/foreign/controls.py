"""Lossless verifiers in unusual dress: a checker that flags one of them is wrong."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lab.specimens.foreign import rows
from lab.specimens.foreign.rows import Array, draw, invert, residual, token_rule
from lab.specimens.specimen import specimen, specimens_of
from spec_oracle.contracts import SamplerFunction

control = partial(specimen, "control", declared="token", function=rows.per_request)


def drawing(draw: Callable[[Array, Any], int]) -> SamplerFunction:
    """Return the token rule that draws tokens so, a function of (weights, rng)."""

    def rule(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
        correct, bonus = (lambda i: draw(residual(p[i], q[i]), rng)), (lambda: draw(p[-1], rng))
        return token_rule(x, q, p, rng, correct=correct, bonus=bonus)

    return rows.per_request(rule)


specimens_of(declared="token", function=rows.per_request)(
    token_rule=("control: Accept with min(1, p/q), correct from the residual", token_rule)
)


@specimen("N9", declared="token", function=rows.per_request)
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


@control(function=drawing)
def exponential_race(weights: Array, rng: Any) -> int:
    """Draw tokens as argmax of weights over exponential noise."""
    noise = rng.exponential(size=len(weights))
    return int(np.where(weights > 0, weights / noise, 0.0).argmax())  # noise may be 0


@control(function=drawing)
def gumbel_race(weights: Array, rng: Any) -> int:
    """Draw tokens as argmax of log weights plus Gumbel noise made from uniforms."""
    support = np.flatnonzero(weights)
    noise = -np.log(-np.log(rng.random(len(support))))
    return int(support[np.argmax(np.log(weights[support]) + noise)])


@control(function=drawing)
def uniform_times_the_sum(weights: Array, rng: Any) -> int:
    """Search the cumulative weights for a uniform times their sum: with float16 rows it may round to 1."""
    cumulative = np.cumsum(weights)
    if not cumulative[-1] > 0:
        raise ValueError("probabilities: nothing is possible")
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


@control()
def inverse_cdf(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """All uniforms up front, tokens by inversion of the cumulative weights."""
    u = rng.random(len(x) + 1)
    return token_rule(
        *(x, q, p, rng),
        accept=lambda i: u[i] < p[i, x[i]] / q[i, x[i]],
        correct=lambda i: invert(residual(p[i], q[i]), u[-1]),
        bonus=lambda: invert(p[-1], u[-1]),
    )


@specimen("N2", declared="sample_and_match", function=rows.per_request)
def sample_and_match(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw from the target at every position and stop at the first token that is not the draft's."""
    emitted: list[int] = []
    for i, row in enumerate(p):
        emitted.append(draw(row, rng))
        if i == len(x) or emitted[-1] != x[i]:
            break
    return emitted


@specimen("N8", declared="sample_and_match", function=rows.per_request)
def point_mass(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Treat the draft as certain: accept with p(x), correct from p without x."""
    token = np.arange(p.shape[1])
    return token_rule(
        *(x, q, p, rng),
        accept=lambda i: rng.random() < p[i, x[i]],
        correct=lambda i: draw(np.where(token == x[i], 0.0, p[i]), rng),
    )


@control()
def log_space(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Accept when log(1 - u) is below the log ratio."""

    def accept(i: int) -> bool:
        own, drafted = p[i, x[i]], q[i, x[i]]
        return bool(own > 0 and np.log(1 - rng.random()) < np.log(own) - np.log(drafted))

    return token_rule(x, q, p, rng, accept=accept)


@control()
def python_random(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Randomness from Python's ``random``; tests 1 - u."""
    vocabulary = range(p.shape[1])
    return token_rule(
        *(x, q, p, rng),
        accept=lambda i: bool(1 - random.random() < p[i, x[i]] / q[i, x[i]]),  # noqa: S311
        correct=lambda i: random.choices(vocabulary, residual(p[i], q[i]).tolist())[0],  # noqa: S311
        bonus=lambda: random.choices(vocabulary, p[-1].tolist())[0],  # noqa: S311
    )


@control()
def legacy_numpy(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Randomness from the legacy functions of ``numpy.random``."""
    uniform = np.random.rand
    return token_rule(x, q, p, np.random, accept=lambda i: uniform() < p[i, x[i]] / q[i, x[i]])


@control(declared="block")
def block_rule(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Block verification."""
    w = rows.block_weights(x, q, p)
    tau = rows.last_success(rows.stop_chances(w, q, p), rng)
    return rows.after(x, q, p, tau, w[tau], rng)
