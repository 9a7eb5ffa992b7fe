"""Defects of the catalogue as small numpy verifiers under the sampler contract (see `rows`)."""

from functools import partial
from typing import Any

import numpy as np

from lab.specimens.foreign import rows
from lab.specimens.foreign.rows import Array, draw, from_residual, passes, per_request, residual, token_rule
from lab.specimens.specimen import specimen, specimens_of

defect = partial(specimen, function=per_request)

# Acceptance.

specimens_of("joint", function=rows.by_accept)(
    always_accept=("A1: Never test", lambda x, q, p, i, rng: True),
    match_or_ratio=(
        "A4: Two chances: a sample of the target equals the draft, or the ratio test passes",
        lambda x, q, p, i, rng: draw(p[i], rng) == x[i] or passes(x, q, p, i, rng),
    ),
    last_draft_unverified=(
        "A6: Stop testing before the last draft",
        lambda x, q, p, i, rng: i == len(x) - 1 or passes(x, q, p, i, rng),
    ),
)


@defect("A11", "joint")
def verify_by_argmax(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Compare drafts with the target's argmax; only the bonus is sampled."""
    best = p.argmax(axis=1)
    return token_rule(x, q, p, rng, accept=lambda i: x[i] == best[i], correct=lambda i: int(best[i]))


@specimen("L1", "joint", function=rows.by_accept)
def typical_acceptance(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """Accept when p(x) exceeds an entropy threshold; lossy by design."""
    entropy = -(p[i] * np.log(np.maximum(p[i], 1e-300))).sum()
    return bool(p[i, x[i]] > min(0.09, 0.3 * np.exp(-entropy)))


specimens_of("exact", function=rows.by_accept)(
    epsilon_in_ratio=(
        "mutant: Add 0.0003 to the denominator of the ratio",
        lambda x, q, p, i, rng: rng.random() < p[i, x[i]] / (q[i, x[i]] + 3e-4),
    )
)


@defect("C8", "joint")
def same_uniform_everywhere(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """One uniform for all positions of the block."""
    u = rng.random()
    return token_rule(x, q, p, rng, accept=lambda i: u * q[i, x[i]] < p[i, x[i]])


# Correction.

specimens_of("joint", function=rows.by_correction)(
    softmax_of_residual=(
        "B1: Push the clamped difference through a softmax",
        lambda x, q, p, i, rng: draw(np.exp(np.maximum(p[i] - q[i], 0)), rng),
    ),
    correction_from_target=("B2: Redraw from p", lambda x, q, p, i, rng: draw(p[i], rng)),
)


@defect("B9", "joint")
def target_zeroed_before_test(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Point-mass rule that strikes the draft out of the shared target before it is tested."""
    for i, token in enumerate(x):
        p[i, token] = 0 if (p[i] > 0).sum() > 1 else 1
    return token_rule(
        x, q, p, rng, accept=lambda i: rng.random() < p[i, x[i]], correct=lambda i: draw(p[i], rng)
    )


@defect("C3", "joint")
def accept_uniform_reused(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Invert the residual's CDF at the uniform that has just failed the test."""
    u = rng.random(len(x))
    return token_rule(
        *(x, q, p, rng),
        accept=lambda i: u[i] * q[i, x[i]] < p[i, x[i]],
        correct=lambda i: rows.invert(residual(p[i], q[i]), u[i]),
    )


specimens_of("joint", function=rows.by_correction)(
    residual_of_row_zero=(
        "E4: Correct from the first position's residual",
        lambda x, q, p, i, rng: from_residual(x, q, p, 0, rng),
    ),
    residual_of_row_before=(
        "E4: Correct from the previous position's residual",
        lambda x, q, p, i, rng: from_residual(x, q, p, max(i - 1, 0), rng),
    ),
    late_handler=(
        "E1: Throw the right correction away and use the row after the rejected draft",
        lambda x, q, p, i, rng: draw(p[i + 1], rng),
    ),
)

# Bonus and loop.


@defect("E2", "joint")
def no_break(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Go on after a mismatch, with rows of a prefix that never happened."""
    tested = range(len(x))
    emitted = [int(x[i]) if passes(x, q, p, i, rng) else from_residual(x, q, p, i, rng) for i in tested]
    return [*emitted, draw(p[-1], rng)]


specimens_of("joint", function=rows.by_bonus)(
    bonus_argmax=("E3: Take the likeliest bonus", lambda q, p, rng: int(p[-1].argmax())),
    bonus_from_row_before=(
        "E3: Draw the bonus from the row of the last draft",
        lambda q, p, rng: draw(p[-2], rng),
    ),
    bonus_from_draft=("E3: Draw the bonus from q", lambda q, p, rng: draw(q[-1], rng)),
    bonus_from_residual=(
        "E3: Draw the bonus from a residual",
        lambda q, p, rng: draw(residual(p[-1], q[-1]), rng),
    ),
)

# Block verification.


@defect("F1", "joint")
def product_against_product(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Compare products of capped ratios with products of uniforms; last success wins, token-wise residual."""
    tau, chance, product = 0, 1.0, 1.0
    for i, token in enumerate(x):
        chance = chance * min(1.0, p[i, token] / q[i, token])
        product = product * rng.random()
        tau = i + 1 if product <= chance else tau
    return rows.after(x, q, p, tau, 1.0, rng)


@defect("F5", "joint")
def weights_not_capped(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Bank an early surplus for later positions."""
    ratios = [p[i, token] / q[i, token] for i, token in enumerate(x)]
    w = [1.0, *np.cumprod(ratios)]
    tau = rows.last_success(rows.stop_chances(w, q, p), rng)
    return rows.after(x, q, p, tau, w[tau], rng)


@defect("F6", "joint")
def token_residual_in_block(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    """Correct from (p - q)+ instead of (w p - q)+."""
    tau = rows.last_success(rows.stop_chances(rows.block_weights(x, q, p), q, p), rng)
    return rows.after(x, q, p, tau, 1.0, rng)
