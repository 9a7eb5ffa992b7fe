"""Greedy block verification with carry-over, on the highest of K paths.

Carry-over is what a verifier still owes to the target after it accepted more than a valid call may.

A greedy block rule accepts the mass w(v) = min(p(v), c(v)) at every node v of the block, where c is the law
of the path it verifies. The text stays lossless when the correction and every further token, until the
block of L tokens is over, are drawn from what is left, (p - w) = (p - c)+ of the joint masses (2403.10444,
appendix; 2604.25925). So the next calls must verify against that modified target.

One *layer* remembers one such debt; debts nest, because the next call may again be greedy towards its own,
modified, target. With t = c(v)/p(v) the ratio of the joint masses at the current context v, the layer turns
the row it is given into

    (p(.|v) - t c(.|v))+, renormalised,         and along a token x    t <- t c(x|v) / p(x|v).

A layer created L - tau - 1 tokens before the end of its block lasts for as many tokens, at most L - 1, and
every call emits at least one: L - 1 layers are always enough, and the oldest may be dropped at each call.
"""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    all_true,
    divide,
    in_working_precision,
    kept,
    minimum_one,
    namespace,
    normalised,
    ones,
    pick,
    positive_part,
    zeros,
)
from verifiers.interface import DecisionSource, Drafts, Paths, Siblings, State, Traits, Verdict
from verifiers.parts.path import chain, draw_correction, last_success, residual
from verifiers.parts.path_order import child_alpha, highest_path_row, keep_highest, path_row, ranks
from verifiers.parts.walk import first_true


@dataclass(frozen=True)
class Layers:
    """Debts of B requests, oldest first: ratio t, alpha of `path_order`, tokens left (int); all [B, D].

    A layer with no tokens left does nothing; so zeros in all three are the state of a fresh request.
    """

    ratio: Array
    alpha: Array
    remaining: Array

    @classmethod
    def of_state(cls, state: State, draft_rows: Array) -> "Layers":
        """Read the state of the last call; the fresh state takes its shape from draft_rows [B, L, V]."""
        if state:
            return cls(*state)
        xp = namespace(draft_rows)
        none = draft_rows[:, 1:, 0]
        return cls(zeros(none), zeros(none), xp.zeros_like(none, dtype=xp.int64))

    @property
    def state(self) -> State:
        """The arrays to hand over."""
        return (self.ratio, self.alpha, self.remaining)


@dataclass(frozen=True)
class LayeredRow:
    """A context seen through its layers: the ``target`` row [B, V] that is owed, and what led to it.

    ``given[d]`` is the row that layer d was given, ``capacity[d]`` the row of its path law c, ``rank[d]``
    the token order behind that law.
    """

    target: Array
    given: tuple[Array, ...]
    capacity: tuple[Array, ...]
    rank: tuple[Array, ...]


def owed(target: Array, draft: Array, layers: Layers, num_paths: int) -> LayeredRow:
    """Apply the layers still active to a target row [B, V]; draft [B, V] is q at the same context."""
    xp = namespace(target)
    given, capacities, orders = [], [], []
    for d in range(layers.ratio.shape[1]):
        rank = ranks(target, draft)
        capacity = highest_path_row(draft, rank, layers.alpha[:, d], num_paths)
        given.append(target)
        capacities.append(capacity)
        orders.append(rank)
        left = normalised(residual(target, layers.ratio[:, d : d + 1] * capacity))
        target = xp.where(layers.remaining[:, d : d + 1] > 0, left, target)
    return LayeredRow(target, tuple(given), tuple(capacities), tuple(orders))


def advance(layers: Layers, row: LayeredRow, draft: Array, token: Array) -> Layers:
    """Move every layer on along ``token`` int [B], from the context of ``row`` and ``draft`` [B, V]."""
    if not row.given:
        return layers
    xp = namespace(draft)
    ratios, alphas = [], []
    for d, (given, capacity, rank) in enumerate(zip(row.given, row.capacity, row.rank, strict=True)):
        step = divide(pick(capacity, token), pick(given, token), otherwise=0)
        ratios.append(layers.ratio[:, d] * step)
        alphas.append(child_alpha(draft, rank, layers.alpha[:, d], token))
    return Layers(xp.stack(ratios, axis=1), xp.stack(alphas, axis=1), layers.remaining - 1)


@dataclass(frozen=True)
class PathNode:
    """One node of the selected path, before its child is known; arrays [B, ...] over requests."""

    layers: Layers
    seen: LayeredRow  # the target that is owed here
    law: Array  # q^Gamma(.|v) [B, V]
    alpha: Array
    surplus: Array  # r = p(v) / q^Gamma(v), joint masses of this call's target and selection [B]


def greedy_stop_chances(target: Array, law: Array, surplus: Array) -> Array:
    """Return the chance h [B] to stop at a node v once every longer prefix was refused.

    Of the paths through v, mass c(v) = 1 in units of the selection law, sum_x min(r p, c) is accepted further
    down; the node is to keep w(v) = min(r, 1) in all. So h = (min(r, 1) - sum_x min) / (1 - sum_x min), which
    is 1 for r >= 1 and else sum_x (r p - c)+ / sum_x (c - r p)+, without cancellation.
    """
    xp = namespace(target)
    scaled = surplus[:, None] * target
    above = xp.sum(positive_part(scaled - law), axis=-1)
    below = xp.sum(positive_part(law - scaled), axis=-1)
    # Capped: for r just below 1 the two sums may change places by rounding.
    return xp.where(surplus < 1, minimum_one(divide(above, below, otherwise=1)), ones(surplus))


class GreedyMultipathCarryVerifier:
    """Select the highest path as GBV does, accept w(v) = min(p(v), q^Gamma(v)), and carry the debt over.

    The scalable relative of block transport (2604.25925): lossless text over calls, no plan to solve. With
    one path it is the greedy block verification of 2403.10444, appendix.
    """

    traits = Traits(paths_only=True)
    accepts = frozenset({Siblings.PATHS})

    def initial_state(self, batch: int) -> State:  # noqa: ARG002  # part of the interface
        """Return the fresh state of any number of requests."""
        return ()

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify a batch against the targets that ``state`` still owes; return the state of the next call."""
        paths = drafts.paths
        xp = namespace(paths.draft_probs)
        first = in_working_precision(paths.draft_probs[:, 0, :, :1])
        steps, path, bonus_chance = descend(paths, Layers.of_state(state, first))
        inner = [greedy_stop_chances(step.seen.target, step.law, step.surplus) for step in steps]
        tau = decisions.categorical(last_success(xp.stack([*inner, minimum_one(bonus_chance)], axis=1)))
        bonus_row = path_row(paths.target_probs, path, paths.draft_length)
        target = xp.stack([*(step.seen.target for step in steps), bonus_row], axis=1)
        law = xp.stack([step.law for step in steps], axis=1)
        scale = xp.stack([*(step.surplus for step in steps), bonus_chance], axis=1)
        along = drafts.path_to((paths.draft_length - 1) * paths.num_paths + path)
        next_token = draw_correction(*chain(along.tokens, target, law), tau, pick(scale, tau), decisions)
        verdict = Verdict.on_paths(drafts, path, tau, next_token)
        return verdict, _next_state(steps, tau, next_token, paths, path).state


def descend(paths: Paths, layers: Layers) -> tuple[list[PathNode], Array, Array]:
    """Follow the highest path; return its nodes, its index [B], and r at its end [B]."""
    present = all_true(paths.tokens[:, :, 0])
    alpha = zeros(in_working_precision(paths.draft_probs[:, 0, 0, 0]))
    surplus = ones(alpha)
    steps = []
    for depth in range(paths.draft_length):
        path = first_true(present)
        draft = path_row(paths.draft_probs, path, depth)
        seen = owed(path_row(paths.target_probs, path, depth), draft, layers, paths.num_paths)
        rank = ranks(seen.target, draft)
        law = highest_path_row(draft, rank, alpha, paths.num_paths)
        steps.append(PathNode(layers, seen, law, alpha, surplus))
        present = keep_highest(present, rank, paths.tokens[:, :, depth])
        token = pick(paths.tokens[:, :, depth], first_true(present))
        surplus = surplus * divide(pick(seen.target, token), pick(law, token), otherwise=1)
        alpha = child_alpha(draft, rank, alpha, token)
        layers = advance(layers, seen, draft, token)
    return steps, first_true(present), surplus


def _next_state(steps: list[PathNode], tau: Array, next_token: Array, paths: Paths, path: Array) -> Layers:
    """Return the layers after the emission: the old ones moved on, this call's own debt added at the end."""
    xp = namespace(paths.draft_probs)
    length = paths.draft_length
    at = xp.where(tau < length, tau, length - 1)  # after a bonus token nothing is owed

    def gather(parts: list[Array]) -> Array:
        return pick(xp.stack(parts, axis=1), at)

    def with_own(old: list[Array], own: Array) -> Array:
        return xp.concat([gather(old), own[:, None]], axis=1)

    surplus = gather([step.surplus for step in steps])
    everything = Layers(
        with_own([step.layers.ratio for step in steps], divide(ones(surplus), surplus, otherwise=0)),
        with_own([step.layers.alpha for step in steps], gather([step.alpha for step in steps])),
        with_own([step.layers.remaining for step in steps], length - tau),
    )
    draft = path_row(paths.draft_probs, path, at)
    row = owed(path_row(paths.target_probs, path, at), draft, everything, paths.num_paths)
    moved = advance(everything, row, draft, next_token)
    ended = (tau == length)[:, None]
    remaining = kept(~ended, moved.remaining)
    return Layers(moved.ratio[:, 1:], moved.alpha[:, 1:], remaining[:, 1:])
