"""Defects of the catalogue as small numpy verifiers under the plain contract (see `rows`)."""

from typing import Any

import numpy as np

from lab.specimens.foreign.rows import (
    Array,
    after,
    block_weights,
    by_accept,
    by_bonus,
    by_correction,
    draw,
    from_residual,
    invert,
    last_success,
    loop,
    passes,
    per_request,
    residual,
    stop_chances,
)
from lab.specimens.specimen import specimen

# Acceptance.


@specimen("A1", "joint", function=by_accept)
def always_accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Never test."""
    return True


@specimen("A4", "joint", function=by_accept)
def match_or_ratio(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Two chances: a sample of the target equals the draft, or the ratio test passes."""
    return draw(p[i], rng) == x[i] or passes(x, q, p, i, rng)


@specimen("A6", "joint", function=by_accept)
def last_draft_unverified(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Stop testing before the last draft."""
    return i == len(x) - 1 or passes(x, q, p, i, rng)


@specimen("A11", "joint", function=per_request)
def verify_by_argmax(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Compare drafts with the target's argmax; only the bonus is sampled."""
    return loop(x, lambda i: x[i] == p[i].argmax(), lambda i: int(p[i].argmax()), lambda: draw(p[-1], rng))


@specimen("L1", "joint", function=by_accept)
def typical_acceptance(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Accept when p(x) exceeds an entropy threshold; lossy by design."""
    entropy = -(p[i] * np.log(np.maximum(p[i], 1e-300))).sum()
    return bool(p[i, x[i]] > min(0.09, 0.3 * np.exp(-entropy)))


@specimen("mutant", "exact", function=by_accept)
def epsilon_in_ratio(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Add 0.0003 to the denominator of the ratio."""
    return bool(rng.random() < p[i, x[i]] / (q[i, x[i]] + 3e-4))


@specimen("C8", "joint", function=per_request)
def same_uniform_everywhere(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """One uniform for all positions of the block."""
    u = rng.random()
    return loop(
        x,
        lambda i: u * q[i, x[i]] < p[i, x[i]],
        lambda i: from_residual(x, q, p, i, rng),
        lambda: draw(p[-1], rng),
    )


# Correction.


@specimen("B1", "joint", function=by_correction)
def softmax_of_residual(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Push the clamped difference through a softmax."""
    return draw(np.exp(np.maximum(p[i] - q[i], 0)), rng)


@specimen("B2", "joint", function=by_correction)
def correction_from_target(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Redraw from p."""
    return draw(p[i], rng)


@specimen("B9", "joint", function=per_request)
def target_zeroed_before_test(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Point-mass rule that strikes the draft out of the shared target before it is tested."""
    for i, token in enumerate(x):
        p[i, token] = 0 if (p[i] > 0).sum() > 1 else 1
    return loop(x, lambda i: rng.random() < p[i, x[i]], lambda i: draw(p[i], rng), lambda: draw(p[-1], rng))


@specimen("C3", "joint", function=per_request)
def accept_uniform_reused(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Invert the residual's CDF at the uniform that has just failed the test."""
    u = rng.random(len(x))
    return loop(
        x,
        lambda i: u[i] * q[i, x[i]] < p[i, x[i]],
        lambda i: invert(residual(p[i], q[i]), u[i]),
        lambda: draw(p[-1], rng),
    )


@specimen("E4", "joint", function=by_correction)
def residual_of_row_zero(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Correct from the first position's residual."""
    return from_residual(x, q, p, 0, rng)


@specimen("E4", "joint", function=by_correction)
def residual_of_row_before(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Correct from the previous position's residual."""
    return from_residual(x, q, p, max(i - 1, 0), rng)


@specimen("E1", "joint", function=by_correction)
def late_handler(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Throw the right correction away and use the row after the rejected draft."""
    return draw(p[i + 1], rng)


# Bonus and loop.


@specimen("E2", "joint", function=per_request)
def no_break(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Go on after a mismatch, with rows of a prefix that never happened."""
    emitted = [
        int(x[i]) if passes(x, q, p, i, rng) else draw(residual(p[i], q[i]), rng) for i in range(len(x))
    ]
    return [*emitted, draw(p[-1], rng)]


@specimen("E3", "joint", function=by_bonus)
def bonus_argmax(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Take the likeliest bonus."""
    return int(p[-1].argmax())


@specimen("E3", "joint", function=by_bonus)
def bonus_from_row_before(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Draw the bonus from the row of the last draft."""
    return draw(p[-2], rng)


@specimen("E3", "joint", function=by_bonus)
def bonus_from_draft(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Draw the bonus from q."""
    return draw(q[-1], rng)


@specimen("E3", "joint", function=by_bonus)
def bonus_from_residual(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Draw the bonus from a residual."""
    return draw(residual(p[-1], q[-1]), rng)


# Block verification.


@specimen("F1", "joint", function=per_request)
def product_against_product(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Compare products of capped ratios with products of uniforms; last success wins, token-wise residual."""
    tau, chance, product = 0, 1.0, 1.0
    for i, token in enumerate(x):
        chance = chance * min(1.0, p[i, token] / q[i, token])
        product = product * rng.random()
        tau = i + 1 if product <= chance else tau
    return after(x, q, p, tau, 1.0, rng)


@specimen("F5", "joint", function=per_request)
def weights_not_capped(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Bank an early surplus for later positions."""
    ratios = [p[i, token] / q[i, token] for i, token in enumerate(x)]
    w = [1.0, *np.cumprod(ratios)]
    tau = last_success(stop_chances(w, q, p), rng)
    return after(x, q, p, tau, w[tau], rng)


@specimen("F6", "joint", function=per_request)
def token_residual_in_block(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from (p - q)+ instead of (w p - q)+."""
    tau = last_success(stop_chances(block_weights(x, q, p), q, p), rng)
    return after(x, q, p, tau, 1.0, rng)
