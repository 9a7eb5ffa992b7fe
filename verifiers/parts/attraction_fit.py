"""Attractions λ inside the blocks of balanced selection: their law by quadrature, and their fit.

A block with hits among m drafts is resolved by choosing draft i with probability λ(X_i) / Σ λ(X_j over its
hits). With B the draft mass below the block and ψ(t) = B + Σ_{levels of the block} q e^{-tλ}, the selection
probability per unit of draft mass of a level is (docs/theory.md, "Multi-path rules")

    F = m ∫_0^∞ λ e^{-tλ} ψ(t)^{m-1} dt.                                                                  (1)

**Quadrature.** λ is scaled to [m/R, 1] in its block, `_RANGE` = R, and t = exp(y - e^{-y}) / m. The trapezoid
rule with step h in y errs by at most 2N / (e^{2πd/h} - 1), N the integral of |integrand| along Im y = ±d, if
the integrand is analytic up to there (Trefethen & Weideman, SIAM Review 56 (2014), theorem 5.1). With
A = ψ(0) and τ = mt, both |ψ/A|^m and |e^{-tλ}|^m are at most e^{max(0, -Re τ)}, so the integrand is at most
m A^{m-1} λ |dt/dy| e^{-λ max(0, Re t)} e^{max(0, -Re τ)}, whose integral at d = 1.5, found numerically, is
below 40 m A^{m-1} for every λ in (0, 1]. So h = 0.24 errs by at most 7e-16 m A^{m-1}; the tails that are cut
off, where λt < 1e-17 or λt > 40, carry less. The law is exact to rounding *whatever λ is*: clipping λ to its
range and stopping the fit early cost acceptance only.

**Fit.** The λ of the wanted law s minimises, over θ = log λ, the convex function E[log Σ_{hits} e^θ] - Σ s θ:
the gradient of its first term is the probability that a level is selected, q F. The Hessian is the Laplacian
D - W of a weighted graph on the levels of a block, with D the row sums of W since θ + const changes nothing:

    W_gh = m (m-1) q_g λ_g q_h λ_h ∫_0^∞ t e^{-t(λ_g+λ_h)} ψ(t)^{m-2} dt.                                  (2)

log Σ e^θ is a cumulant generating function, so along a direction Δ of range R = max Δ - min Δ its third
derivative is at most R times the second. The slope at s along a Newton step is therefore at most
N (e^{Rs} - 1)/R - N, N the squared Newton decrement, and s = log(1 + R)/R descends for certain: no line
search, no divergence, and quadratic convergence, as s -> 1 when R -> 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log

from array_api_compat import device

from verifiers.arrays import Array, Record, arange_like, divide, filled, kept, map_fields, namespace, ones
from verifiers.parts.convex_minorant import Blocks

_RANGE = 1e11
_STEP = 0.24
_FIRST, _LAST = -3.7, log(40 * _RANGE)
_NODES = round((_LAST - _FIRST) / _STEP) + 1
_MAX_STEPS = 60
_RIDGE = 1e-12
_TINY = 1e-300


@dataclass(frozen=True)
class _Kernel:
    """Everything that (1) and (2) share, at one λ; N quadrature nodes.

    ``drafts`` [B, 1], m; ``chance`` [B, G], qλ; ``attraction`` [B, G], λ; ``time`` and ``weight`` [B, 1, N];
    ``decay`` [B, G, N], e^{-tλ}; ``psi`` and ``power`` [B, G, N], ψ(t) of the level's block and ψ(t)^{m-2}.
    """

    drafts: Array
    chance: Array
    attraction: Array
    time: Array
    weight: Array
    decay: Array
    psi: Array
    power: Array


@dataclass(frozen=True)
class _Fit:
    """Fits in progress, B of them: ``request`` int [B] says whose; the rest as in `Blocks`, or as below.

    ``drafts`` [B, 1], m; ``lowest`` [B, 1], the least θ; ``uneven`` bool [B, G], whether the level's block
    needs a fit; ``free`` bool [B, G], whether the level's θ takes part in it; ``exponent`` [B, G], θ.
    """

    request: Array
    draft_mass: Array
    drafts: Array
    lowest: Array
    same: Array
    below: Array
    even: Array
    wanted: Array
    uneven: Array
    free: Array
    exponent: Array


def fit_attractions(draft_mass: Array, blocks: Blocks, count: Array, tolerance: float) -> tuple[Array, Array]:
    """Return λ and the realised F, both [B, G], for levels of draft mass [B, G] and ``count`` int [B] drafts.

    Stops, request by request, once Σ |s - wanted s| <= ``tolerance``, or after 60 Newton steps. float64 only.
    A request's result does not depend on the others: with numpy not in a single bit (measured over seven
    BLAS kernels and three instruction sets); torch's exponentials differ in the last digit between places.
    """
    xp = namespace(draft_mass)
    fit = _start(draft_mass, blocks, count)
    attraction, law = xp.empty_like(draft_mass), xp.empty_like(draft_mass)
    for _ in range(_MAX_STEPS):
        kernel = _kernel(fit.draft_mass, fit.same, fit.below, fit.exponent, fit.drafts)
        reached = xp.where(fit.uneven, _law(kernel), fit.even)
        attraction[fit.request], law[fit.request] = kernel.attraction, reached
        excess = kept(fit.free, fit.draft_mass * (reached - fit.wanted))
        unsettled = xp.sum(xp.abs(excess), axis=-1) > tolerance
        if not xp.any(unsettled):
            break
        fit, kernel, excess = _only(unsettled, fit), _only(unsettled, kernel), excess[unsettled]
        moved = fit.exponent + _newton_step(_links(kernel, fit.same), fit.same, excess)
        fit = replace(fit, exponent=_scaled(moved, fit.free, fit.same, fit.lowest))
    return attraction, law


def _start(draft_mass: Array, blocks: Blocks, count: Array) -> _Fit:
    """Return the fits at their first guess."""
    xp = namespace(draft_mass)
    drafts = xp.astype(count, draft_mass.dtype)[:, None]
    lowest = xp.log(drafts / _RANGE)
    uneven = xp.any(blocks.same & (blocks.wanted != blocks.even)[:, None, :], axis=-1) & (drafts > 1)
    free = uneven & (draft_mass > 0)
    exponent = _scaled(_first_guess(blocks, drafts), free, blocks.same, lowest)
    return _Fit(
        request=arange_like(draft_mass, draft_mass.shape[0]),
        draft_mass=draft_mass,
        drafts=drafts,
        lowest=lowest,
        same=blocks.same,
        below=blocks.below,
        even=blocks.even,
        wanted=blocks.wanted,
        uneven=uneven,
        free=free,
        exponent=exponent,
    )


def _only(kept: Array, record: Record) -> Record:
    """Return ``record``, whose fields are all arrays of B requests, for those that are ``kept``, bool [B]."""
    return map_fields(lambda values: values[kept], record)


def _first_guess(blocks: Blocks, drafts: Array) -> Array:
    """Return θ [B, G] from F ~ m ψ(1/λ)^(m-1) and ψ(t) ~ B + q / (1 + t), as if λ were exponential."""
    xp = namespace(drafts)
    above = blocks.mass + blocks.below
    root = 1 / xp.where(drafts > 1, drafts - 1, drafts)
    reached = xp.exp(root * xp.log(xp.clip(blocks.wanted / drafts, _TINY, None)))
    return xp.log(xp.clip(reached - blocks.below, 1e-30, 1.0) / xp.clip(above - reached, 1e-30, 1.0))


def _scaled(exponent: Array, free: Array, same: Array, lowest: Array) -> Array:
    """Return θ [B, G] shifted to maximum 0 in every block and clipped below; 0 for all that is not free."""
    xp = namespace(exponent)
    top = _over_block(xp.max, xp.where(free, exponent, filled(exponent, -inf)), same, -inf)
    return kept(free, xp.maximum(exponent - kept(free, top), lowest))


def _over_block(reduce: Callable[..., Array], values: Array, same: Array, neutral: float) -> Array:
    """Return ``reduce`` over the block of each level, [B, G], for ``values`` [B, G]."""
    xp = namespace(values)
    return reduce(xp.where(same, values[:, None, :], neutral), axis=-1)


def _kernel(draft_mass: Array, same: Array, below: Array, exponent: Array, drafts: Array) -> _Kernel:
    """Return the integrands' common factors at λ = e^``exponent``."""
    xp = namespace(draft_mass)
    y = _FIRST + _STEP * xp.astype(arange_like(draft_mass, _NODES), draft_mass.dtype)
    time = (xp.exp(y - xp.exp(-y)) / drafts)[:, None, :]
    attraction = xp.exp(exponent)
    decay = xp.exp(-attraction[:, :, None] * time)
    in_block = xp.matmul(xp.astype(same, draft_mass.dtype), draft_mass[:, :, None] * decay)
    psi = below[:, :, None] + in_block
    # By logarithms, several times faster than a power. ψ underflows only where the integrand is negligible.
    power = xp.exp(kept(drafts > 2, drafts - 2)[:, :, None] * xp.log(xp.clip(psi, _TINY, None)))
    weight = _STEP * (1 + xp.exp(-y)) * time
    return _Kernel(drafts, draft_mass * attraction, attraction, time, weight, decay, psi, power)


def _law(kernel: _Kernel) -> Array:
    """Return F of (1), [B, G]; meaningless for m = 1."""
    xp = namespace(kernel.decay)
    integral = xp.sum(kernel.weight * kernel.decay * kernel.power * kernel.psi, axis=-1)
    return kernel.drafts * kernel.attraction * integral


def _links(kernel: _Kernel, same: Array) -> Array:
    """Return W of (2), [B, G, G]."""
    xp = namespace(kernel.decay)
    left = kernel.chance[:, :, None] * kernel.decay
    right = kernel.weight * kernel.time * kernel.power * left
    pairs = (kernel.drafts * (kernel.drafts - 1))[:, :, None] * xp.matmul(right, xp.matrix_transpose(left))
    return kept(same, pairs)


def _newton_step(links: Array, same: Array, excess: Array) -> Array:
    """Return the damped Newton step of θ, [B, G], for the gradient ``excess`` [B, G].

    Solves (D - W) Δ = -excess, scaled by D^(-1/2) on both sides; adding the projection on each block's null
    vector leaves the solution orthogonal to it. The ridge keeps the matrix invertible in floating point.
    """
    xp = namespace(links)
    degree = xp.sum(links, axis=-1)
    root = xp.sqrt(degree)
    unit = root / xp.sqrt(xp.where(degree > 0, _over_block(xp.sum, degree, same, 0), ones(degree)))
    inverse = divide(ones(root), root, otherwise=0)
    null = kept(same, unit[:, :, None] * unit[:, None, :])
    matrix = null - inverse[:, :, None] * links * inverse[:, None, :]
    matrix = matrix + (1 + _RIDGE) * xp.eye(degree.shape[-1], dtype=degree.dtype, device=device(degree))
    change = -inverse * xp.linalg.solve(matrix, (inverse * excess)[:, :, None])[:, :, 0]
    spread = _over_block(xp.max, change, same, -inf) - _over_block(xp.min, change, same, inf)
    return change * xp.where(
        spread > 0, xp.log1p(spread) / xp.where(spread > 0, spread, spread + 1), spread + 1
    )


def law_by_enumeration(draft_mass: Array, attraction: Array, block: Array, count: Array) -> Array:
    """Return F [B, G] by summing over what the m - 1 other drafts may be: G^(m-1) terms, exact on rationals.

    The other drafts of a winner fall into its block or below it, and count in λ only in its block.
    """
    xp = namespace(draft_mass)
    below, same = block[:, :, None] < block[:, None, :], block[:, :, None] == block[:, None, :]
    mass, pull = draft_mass[:, None, :], attraction[:, None, :]
    chance, pull = kept(same | below, mass), kept(same, pull)
    total, weight = attraction[:, :, None], ones(attraction[:, :, None])
    shape = (*attraction.shape, -1)
    first = (arange_like(attraction, attraction.shape[1]) == 0)[None, None, :]
    for other in range(1, int(xp.max(count))):
        present = (count > other)[:, None, None]
        each_chance = xp.where(present, chance, kept(first, ones(mass)))
        each_pull = kept(present, pull)
        weight = xp.reshape(weight[:, :, :, None] * each_chance[:, :, None, :], shape)
        total = xp.reshape(total[:, :, :, None] + each_pull[:, :, None, :], shape)
    return count[:, None] * attraction * xp.sum(weight / total, axis=-1)
