"""Ranks: select one of K independent paths by the rows along each of them, with a law that is known in full.

Every prefix v has a *rank law* π_v on the ranks 0..R-1, with the rows along v as its only inputs, and

    π_v = Σ_x q(x|v) π_{vx}.                                                                               (1)

So ranks drawn from the laws of the K full paths are independent and each has the law of the root. The path of
the lowest rank is selected, of several any with equal chance. It passes v with probability

    s(v) = q(v) Σ_r π_v(r) worth(r),   worth(r) = (T_r^K - T_{r+1}^K) / (T_r - T_{r+1}),                   (2)

T_r the chance of a rank of at least r at the root. Proof: docs/rules/lookahead_multipath_block.md. Ranks
need not be drawn: `selection_chances` sums over them, and one decision selects.
"""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    arange_like,
    as_arithmetic_of,
    kept,
    namespace,
    ones,
    pick_each,
    place_in,
    power_sum,
    zeros,
)
from verifiers.parts.ratio_levels import running_sum


@dataclass(frozen=True)
class Ranks:
    """The ranks at N prefixes: ``law`` [N, R], π_v, and ``worth`` [N, R], which is the same along a path."""

    law: Array
    worth: Array

    @property
    def edges(self) -> Array:
        """The chance of the first 0, 1, ..., R ranks, [N, R+1]."""
        return running_sum(self.law)

    @property
    def totals(self) -> Array:
        """The worth of the first 0, 1, ..., R ranks, [N, R+1]; the last is s(v) / q(v)."""
        return running_sum(self.law * self.worth)

    def reached(self, mass: Array) -> Array:
        """Return D, the worth of the lowest ranks of chance ``mass`` [N, M], [N, M]."""
        edges = self.edges
        rank = place_in(edges[:, 1:-1], mass, right=True)
        beyond = (mass - pick_each(edges, rank)) * pick_each(self.worth, rank)
        return pick_each(self.totals, rank) + beyond


def root_ranks(draft_mass: Array, count: Array, steps: int) -> Ranks:
    """Return the ranks of ``count`` int [N] paths from N roots with levels of draft mass [N, G].

    They are ``steps`` equal parts, cut once more where a level ends, so that D(t) is 1 - (1 - t)^K exactly
    there, and no chord of it: R = ``steps`` + G - 1.
    """
    xp = namespace(draft_mass)
    even = xp.astype(arange_like(draft_mass, steps + 1), xp.float64) / steps
    grid = zeros(draft_mass[:, :1]) + as_arithmetic_of(draft_mass, even)[None, :]
    cuts = running_sum(draft_mass)[:, 1:-1]
    cuts = xp.where(cuts < 1, cuts, ones(cuts))
    edges = xp.sort(xp.concat([grid, cuts], axis=1), axis=-1)
    left = 1 - edges
    worth = power_sum(left[:, 1:], left[:, :-1], count[:, None])
    return Ranks(edges[:, 1:] - edges[:, :-1], worth)


def with_absent(laws: Array, present: Array) -> Array:
    """Return rank laws [B, K, R + 1] in which paths that are not ``present``, bool [B, K], come last."""
    xp = namespace(laws)
    behind = xp.where(present, zeros(laws[:, :, 0]), ones(laws[:, :, 0]))
    return xp.concat([kept(present[:, :, None], laws), behind[:, :, None]], axis=-1)


def selection_chances(laws: Array) -> Array:
    """Return the chance [B, K] that each path is selected, given the rank laws [B, K, R] of full paths.

    Of paths of equal rank each lies at a place of its own in the rank, uniform in [0, 1). The chance that no
    other path comes before one at place 1 - t is a polynomial in t, whose integral is the chance sought. So
    the law of what follows is the same in whatever order the paths are given.
    """
    xp = namespace(laws)
    onwards = xp.flip(xp.cumulative_sum(xp.flip(laws, axis=-1), axis=-1), axis=-1)
    beyond = xp.concat([onwards[..., 1:], zeros(onwards[..., :1])], axis=-1)
    chances = []
    for path in range(laws.shape[1]):
        polynomial = [ones(laws[:, path])]
        for number, other in enumerate(other for other in range(laws.shape[1]) if other != path):
            factor = [beyond[:, other], laws[:, other]]
            polynomial = _product(polynomial, factor) if number else factor
        integral = polynomial[0]
        for degree, coefficient in enumerate(polynomial[1:], start=2):
            integral = integral + coefficient / degree
        chances.append(xp.sum(laws[:, path] * integral, axis=-1))
    return xp.stack(chances, axis=1)


def _product(polynomial: list[Array], factor: list[Array]) -> list[Array]:
    """Return the coefficients of a polynomial times one of degree 1, from the constant one on."""
    later, within = ([each * coefficient for each in polynomial] for coefficient in factor)
    pairs = zip(later[1:], within, strict=False)
    return [later[0], *(left + right for left, right in pairs), within[-1]]
