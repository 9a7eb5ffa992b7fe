"""Steps of plain numpy functions that verify request by request.

One request is verified in a Python loop: ``rule(x, q, p, rng) -> emitted tokens`` with x int [L], q [L, V], p
[L+1, V]; `per_request` lifts it to the sampler contract. The token rule is put together of three parts, each
a function of (x, q, p, position, rng), of which a specimen replaces one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.contracts import SamplerFunction

Array: TypeAlias = Any
Rule: TypeAlias = Callable[[Array, Array, Array, Any], list[int]]
Accept: TypeAlias = Callable[[Array, Array, Array, int, Any], bool]
Draw: TypeAlias = Callable[[Array, Array, Array, int, Any], int]


def per_request(rule: Rule) -> SamplerFunction:
    """Turn a rule for one request into a batched verifier."""

    @wraps(rule)
    def verify(
        draft_tokens: Array, draft_probs: Array, target_probs: Array, generator: Any
    ) -> tuple[Array, Array]:
        batch, length = draft_tokens.shape
        tokens = np.full((batch, length + 1), -1)
        for b in range(batch):
            emitted = rule(draft_tokens[b], draft_probs[b], target_probs[b], generator)
            tokens[b, : len(emitted)] = emitted
        return tokens, (tokens >= 0).sum(axis=1) - 1

    return verify


def draw(weights: Array, rng: Any) -> int:
    """Draw from weights that need not sum to one."""
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def residual(p: Array, q: Array) -> Array:
    """Return (p - q)+, or p where nothing is left."""
    left = np.maximum(p - q, 0)
    return left if left.sum() > 0 else p


def passes(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Test draft i: u q(x) < p(x)."""
    return bool(rng.random() * q[i, x[i]] < p[i, x[i]])


def from_residual(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Draw from the residual at position i."""
    return draw(residual(p[i], q[i]), rng)


def token_rule(
    x: Array,
    q: Array,
    p: Array,
    rng: Any,
    *,
    accept: Callable[[int], bool] | None = None,
    correct: Callable[[int], int] | None = None,
    bonus: Callable[[], int] | None = None,
) -> list[int]:
    """Accept drafts in order; after the first that fails emit a correction, after the last a bonus.

    ``accept`` and ``correct`` are told the position; those of the token rule stand in for what is not given.
    """
    for i in range(len(x)):
        if not (accept(i) if accept else passes(x, q, p, i, rng)):
            return [*x[:i], correct(i) if correct else from_residual(x, q, p, i, rng)]
    return [*x, bonus() if bonus else draw(p[-1], rng)]


def by_accept(accept: Accept) -> SamplerFunction:
    """Return the token rule with another acceptance test."""
    return per_request(
        lambda x, q, p, rng: token_rule(x, q, p, rng, accept=lambda i: accept(x, q, p, i, rng))
    )


def by_correction(correct: Draw) -> SamplerFunction:
    """Return the token rule with another correction."""
    return per_request(
        lambda x, q, p, rng: token_rule(x, q, p, rng, correct=lambda i: correct(x, q, p, i, rng))
    )


def by_bonus(bonus: Callable[[Array, Array, Any], int]) -> SamplerFunction:
    """Return the token rule with another bonus, a function of (q, p, rng)."""
    return per_request(lambda x, q, p, rng: token_rule(x, q, p, rng, bonus=lambda: bonus(q, p, rng)))


token_by_request = per_request(token_rule)
"""The token rule under the sampler contract."""


def invert(weights: Array, u: Any) -> int:
    """Return the token at which the normalised cumulative weights exceed u; sums are in float64."""
    cumulative = weights.cumsum(dtype=np.float64)
    cumulative /= cumulative[-1]
    return int(min((cumulative <= u).sum(), np.flatnonzero(weights)[-1]))


def block_weights(x: Array, q: Array, p: Array) -> list[float]:
    """Return w_0..w_L of the block rule."""
    weights = [1.0]
    for i, token in enumerate(x):
        # In this order of arguments a NaN stays one, and no coin lands below it.
        weights.append(min(weights[-1] * p[i, token] / q[i, token], 1.0))
    return weights


def stop_chances(weights: list[float], q: Array, p: Array) -> list[float]:
    """Return h_1..h_L of the block rule."""
    chances = []
    for i, w in enumerate(weights[1:-1], start=1):
        surplus = np.maximum(w * p[i] - q[i], 0).sum()
        chances.append(float(surplus / (surplus + 1 - w)) if surplus + 1 - w > 0 else 1.0)
    return [*chances, weights[-1]]


def last_success(chances: list[float], rng: Any) -> int:
    """Toss all coins; return the position, from one, of the last success, or 0."""
    successes = [i for i, chance in enumerate(chances, start=1) if rng.random() < chance]
    return max(successes, default=0)


def after(  # noqa: PLR0917
    x: Array, q: Array, p: Array, tau: int, scale: float, rng: Any
) -> list[int]:
    """Emit the accepted prefix and one token from (scale p - q)+, or from p after the whole draft."""
    weights = p[-1] if tau == len(x) else residual(scale * p[tau], q[tau])
    return [*x[:tau], draw(weights, rng)]
