"""Carry-over: what a verifier still owes to the target after it has accepted more than a valid call may.

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

from verifiers.arrays import Array, divide, namespace, normalised, pick, zeros
from verifiers.interface import State
from verifiers.parts.path_order import child_alpha, highest_path_row, ranks
from verifiers.parts.residual import residual


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
