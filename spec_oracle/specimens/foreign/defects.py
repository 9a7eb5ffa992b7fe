"""Defects of the bug catalogue as small numpy verifiers under the plain contract (see `rows`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spec_oracle.specimens.foreign.rows import (
    Array,
    after,
    block_weights,
    draw,
    invert,
    last_success,
    loop,
    passes,
    residual,
    specimen,
    stop_chances,
)


def _with_acceptance(
    accept: Callable[[Array, Array, Array, int, Any], bool], x: Array, q: Array, p: Array, rng: Any
) -> list[int]:
    return loop(
        x,
        lambda i: accept(x, q, p, i, rng),
        lambda i: draw(residual(p[i], q[i]), rng),
        lambda: draw(p[-1], rng),
    )


def _with_correction(correct: Callable[[int], int], x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    return loop(x, lambda i: passes(x, q, p, i, rng), correct, lambda: draw(p[-1], rng))


def _with_bonus(bonus: Callable[[], int], x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    return loop(x, lambda i: passes(x, q, p, i, rng), lambda i: draw(residual(p[i], q[i]), rng), bonus)


# Acceptance.


@specimen("A1")
def always_accept(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Never test."""
    return _with_acceptance(lambda *_: True, x, q, p, rng)


@specimen("A3")
def ratio_to_target_maximum(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Divide p(x) by the largest p instead of by q(x)."""
    return _with_acceptance(lambda x, _, p, i, rng: rng.random() < p[i, x[i]] / p[i].max(), x, q, p, rng)


@specimen("A4")
def match_or_ratio(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Two chances: a sample of the target equals the draft, or the ratio test passes."""
    return _with_acceptance(
        lambda x, q, p, i, rng: draw(p[i], rng) == x[i] or passes(x, q, p, i, rng), x, q, p, rng
    )


@specimen("A5")
def first_draft_unverified(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Start testing at the second draft."""
    return _with_acceptance(lambda x, q, p, i, rng: i == 0 or passes(x, q, p, i, rng), x, q, p, rng)


@specimen("A6")
def last_draft_unverified(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Stop testing before the last draft."""
    return _with_acceptance(lambda x, q, p, i, rng: i == len(x) - 1 or passes(x, q, p, i, rng), x, q, p, rng)


@specimen("A11")
def verify_by_argmax(x: Array, q: Array, p: Array, rng: Any) -> list[int]:  # noqa: ARG001
    """Compare drafts with the target's argmax; only the bonus is sampled."""
    return loop(x, lambda i: x[i] == p[i].argmax(), lambda i: int(p[i].argmax()), lambda: draw(p[-1], rng))


@specimen("L1")
def typical_acceptance(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Accept when p(x) exceeds an entropy threshold; lossy by design."""

    def accept(x: Array, _: Array, p: Array, i: int, __: Any) -> bool:
        entropy = -(p[i] * np.log(np.maximum(p[i], 1e-300))).sum()
        return bool(p[i, x[i]] > min(0.09, 0.3 * np.exp(-entropy)))

    return _with_acceptance(accept, x, q, p, rng)


@specimen("epsilon")
def epsilon_in_ratio(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Add 0.0003 to the denominator of the ratio."""
    return _with_acceptance(
        lambda x, q, p, i, rng: rng.random() < p[i, x[i]] / (q[i, x[i]] + 3e-4), x, q, p, rng
    )


@specimen("C8")
def same_uniform_everywhere(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """One uniform for all positions of the block."""
    u = rng.random()
    return _with_acceptance(lambda x, q, p, i, _: u * q[i, x[i]] < p[i, x[i]], x, q, p, rng)


# Correction.


@specimen("B1")
def softmax_of_residual(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Push the clamped difference through a softmax."""
    return _with_correction(lambda i: draw(np.exp(np.maximum(p[i] - q[i], 0)), rng), x, q, p, rng)


@specimen("B2")
def correction_from_target(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Redraw from p."""
    return _with_correction(lambda i: draw(p[i], rng), x, q, p, rng)


@specimen("B9")
def target_zeroed_before_test(x: Array, q: Array, p: Array, rng: Any) -> list[int]:  # noqa: ARG001
    """Point-mass rule that strikes the draft out of the shared target before it is tested."""
    for i, token in enumerate(x):
        p[i, token] = 0 if (p[i] > 0).sum() > 1 else 1
    return loop(x, lambda i: rng.random() < p[i, x[i]], lambda i: draw(p[i], rng), lambda: draw(p[-1], rng))


@specimen("B13")
def argmax_of_residual(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Take the likeliest correction."""
    return _with_correction(lambda i: int(residual(p[i], q[i]).argmax()), x, q, p, rng)


@specimen("B-absolute")
def absolute_residual(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw the correction from |p - q|."""
    return _with_correction(lambda i: draw(np.abs(p[i] - q[i]) + 1e-300, rng), x, q, p, rng)


@specimen("C3")
def accept_uniform_reused(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Invert the residual's CDF at the uniform that has just failed the test."""
    u = rng.random(len(x))
    return loop(
        x,
        lambda i: u[i] * q[i, x[i]] < p[i, x[i]],
        lambda i: invert(residual(p[i], q[i]), u[i]),
        lambda: draw(p[-1], rng),
    )


@specimen("E4-row0")
def residual_of_row_zero(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from the first position's residual."""
    return _with_correction(lambda _: draw(residual(p[0], q[0]), rng), x, q, p, rng)


@specimen("E4-before")
def residual_of_row_before(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from the previous position's residual."""
    return _with_correction(lambda i: draw(residual(p[max(i - 1, 0)], q[max(i - 1, 0)]), rng), x, q, p, rng)


@specimen("E4-after")
def residual_of_row_after(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from the next position's residual."""
    return _with_correction(lambda i: draw(residual(p[i + 1], q[min(i + 1, len(x) - 1)]), rng), x, q, p, rng)


@specimen("E1")
def late_handler(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Throw the right correction away and use the row after the rejected draft."""
    return _with_correction(lambda i: draw(p[i + 1], rng), x, q, p, rng)


# Bonus and loop.


@specimen("E2")
def no_break(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Go on after a mismatch, with rows of a prefix that never happened."""
    emitted = [
        int(x[i]) if passes(x, q, p, i, rng) else draw(residual(p[i], q[i]), rng) for i in range(len(x))
    ]
    return [*emitted, draw(p[-1], rng)]


@specimen("E3-argmax")
def bonus_argmax(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Take the likeliest bonus."""
    return _with_bonus(lambda: int(p[-1].argmax()), x, q, p, rng)


@specimen("E3-row")
def bonus_from_row_before(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw the bonus from the row of the last draft."""
    return _with_bonus(lambda: draw(p[-2], rng), x, q, p, rng)


@specimen("E3-draft")
def bonus_from_draft(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw the bonus from q."""
    return _with_bonus(lambda: draw(q[-1], rng), x, q, p, rng)


@specimen("E3-residual")
def bonus_from_residual(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Draw the bonus from a residual."""
    return _with_bonus(lambda: draw(residual(p[-1], q[-1]), rng), x, q, p, rng)


# Block verification.


@specimen("F1")
def product_against_product(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Compare products of capped ratios with products of uniforms; last success wins, token-wise residual."""
    tau, chance, product = 0, 1.0, 1.0
    for i, token in enumerate(x):
        chance = chance * min(1.0, p[i, token] / q[i, token])
        product = product * rng.random()
        tau = i + 1 if product <= chance else tau
    return after(x, q, p, tau, 1.0, rng)


@specimen("F5")
def weights_not_capped(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Bank an early surplus for later positions."""
    ratios = [p[i, token] / q[i, token] for i, token in enumerate(x)]
    w = [1.0, *np.cumprod(ratios)]
    tau = last_success(stop_chances(w, q, p), rng)
    return after(x, q, p, tau, w[tau], rng)


@specimen("F6")
def token_residual_in_block(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from (p - q)+ instead of (w p - q)+."""
    tau = last_success(stop_chances(block_weights(x, q, p), q, p), rng)
    return after(x, q, p, tau, 1.0, rng)


@specimen("F7")
def stop_at_first_failure(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Leave the scan at the first coin that fails."""
    w = block_weights(x, q, p)
    tau = 0
    for chance in stop_chances(w, q, p):
        if rng.random() >= chance:
            break
        tau += 1
    return after(x, q, p, tau, w[tau], rng)


@specimen("F8")
def weights_as_chances(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Use w_i as the stop chance at every position."""
    w = block_weights(x, q, p)
    tau = last_success(w[1:], rng)
    return after(x, q, p, tau, w[tau], rng)
