"""Block transport with carry-over: the masses of SpecTr-GBV, carried by an exact plan. For toy instances.

Every node v of the block is to be passed with mass w(v) = p(v) (1 - (1 - min(1, q(v)/p(v)))^K) (2604.25925;
joint masses of the block). K independent paths can always carry these masses (docs/theory.md,
"Carry-over"), so a plan says, for each draft tree, with which masses to stop at its nodes. The correction
after v, and the target of every further token until the block is over, are

    p(vx) - w(vx) = p(vx) (1 - min(1, t))^K,     t = q(vx) / p(vx).

A debt is therefore known by t at the current context and by how many tokens it lasts; debts of earlier calls
change the target of later ones, and each pair of context and debts has a plan of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verifiers.arrays import Array, divide, minimum_one, namespace, normalised, ones, positive_part
from verifiers.errors import InvalidInputError
from verifiers.interface import DecisionSource, Drafts, Siblings, State, StatefulVerifier, Traits, Verdict
from verifiers.parts.transport_plan import multisets, transport_plan

Context = tuple[int, ...]
Model = Callable[[Context], Array]


@dataclass(frozen=True)
class Debt:
    """What one earlier call still owes: t = q/p of its block at the current context, and tokens left."""

    ratio: Any
    remaining: int


@dataclass(frozen=True)
class Position:
    """Where a request stands: the text so far, and the debts that change its target, oldest first."""

    context: Context = ()
    debts: tuple[Debt, ...] = ()


class BlockTransportVerifier:
    """The rule before it knows its models; `bound_to` gives the one that verifies."""

    traits = Traits(paths_only=True)
    accepts = frozenset({Siblings.PATHS})

    def bound_to(self, target: Model, draft: Model) -> StatefulVerifier:
        """Return the rule for two toy models, each given as the row [V] after any context."""
        return BoundBlockTransport(target, draft)

    def initial_state(self, batch: int) -> State:
        """Return the state of ``batch`` fresh requests."""
        return (np.array([Position()] * batch, dtype=object),)

    def verify(
        self,
        drafts: Drafts,  # noqa: ARG002  # part of the interface, as are the others
        decisions: DecisionSource,  # noqa: ARG002
        state: State,  # noqa: ARG002
    ) -> tuple[Verdict, State]:
        """Refuse: the rows along the drafts do not determine the plan."""
        raise InvalidInputError("block_transport: needs whole models, not just drafts; call bound_to first")


@dataclass(frozen=True)
class BoundBlockTransport:
    """Block transport for given models; plans are solved once per position and kept."""

    target: Model
    draft: Model
    _blocks: dict[tuple[Position, int, int], "TransportBlock"] = field(
        default_factory=dict, repr=False, compare=False
    )

    def initial_state(self, batch: int) -> State:
        """Return the state of ``batch`` fresh requests."""
        return BlockTransportVerifier().initial_state(batch)

    def block(self, position: Position, length: int, paths: int) -> "TransportBlock":
        """Return the masses and the plan of a block of ``length`` tokens that begins at ``position``."""
        key = (position, length, paths)
        if key not in self._blocks:
            self._blocks[key] = TransportBlock(self.target, self.draft, *key)
        return self._blocks[key]

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Stop where the plan of each request's position says, given its draft tree."""
        given = drafts.paths
        xp, drawn = namespace(given.tokens), given.tokens.tolist()
        positions = list(state[0])
        size = (given.draft_length, given.num_paths)
        blocks = [self.block(position, *size) for position in positions]
        laws = [block.stop_law(paths) for block, paths in zip(blocks, drawn, strict=True)]
        zero = laws[0][1][0] * 0
        weights = np.full((drafts.batch, max(len(masses) for _, masses in laws)), zero)
        for row, (_, masses) in zip(weights, laws, strict=True):
            row[: len(masses)] = masses
        chosen = decisions.categorical(xp.asarray(weights))
        stops = [nodes[choice] for (nodes, _), choice in zip(laws, chosen.tolist(), strict=True)]
        left = np.stack([block.owed(stop) for block, stop in zip(blocks, stops, strict=True)])
        next_token = decisions.categorical(xp.asarray(left))
        after = np.empty(drafts.batch, dtype=object)
        known: dict[tuple[int, Context, int], Position] = {}
        for b, (block, stop, token) in enumerate(zip(blocks, stops, next_token.tolist(), strict=True)):
            where = id(block), stop, token
            if where not in known:
                known[where] = block.after(stop, token)
            after[b] = known[where]
        tau = xp.asarray([len(stop) for stop in stops])
        path = [
            next(k for k, path in enumerate(paths) if tuple(path[: len(stop)]) == stop)
            for paths, stop in zip(drawn, stops, strict=True)
        ]
        return Verdict.on_paths(drafts, xp.asarray(path), tau, next_token), (after,)


@dataclass(frozen=True)
class _Level:
    """All nodes of one depth d, in lexicographic order: their rows and joint masses.

    ``given[j]`` [V^d, V] are the rows that debt j is given; ``target`` [V^d, V] what is owed after all of
    them; ``draft`` [V^d, V]; ``ratios`` [V^d, D] t of every debt; ``p`` and ``q`` [V^d].
    """

    given: tuple[NDArray[Any], ...]
    target: NDArray[Any]
    draft: NDArray[Any]
    ratios: NDArray[Any]
    p: NDArray[Any]
    q: NDArray[Any]


class TransportBlock:
    """One block from one position: masses of all nodes, the transport plan, and what is owed afterwards."""

    def __init__(self, target: Model, draft: Model, position: Position, length: int, paths: int) -> None:
        self._position, self._length, self._paths = position, length, paths
        self._levels: list[_Level] = []
        for depth in range(length + 1):
            self._levels.append(self._level(target, draft, depth))
        self.vocab_size = self._levels[0].target.shape[1]

    def _level(self, target: Model, draft: Model, depth: int) -> _Level:
        start = self._position
        vocab = len(target(start.context))
        contexts = [start.context + suffix for suffix in product(range(vocab), repeat=depth)]
        row, law = np.stack([target(c) for c in contexts]), np.stack([draft(c) for c in contexts])
        if depth:
            above = self._levels[-1]
            p, q = (above.p[:, None] * above.target).reshape(-1), (above.q[:, None] * above.draft).reshape(-1)
            steps = [divide(above.draft, given, otherwise=0) for given in above.given]
            moved = [above.ratios[:, j, None] * step for j, step in enumerate(steps)]
            ratios = np.array([ratio.reshape(-1) for ratio in moved]).reshape(len(moved), len(p)).T
        else:
            p = q = ones(row[:1, 0])
            ratios = np.array([[debt.ratio for debt in start.debts]])
        given = []
        for j, debt in enumerate(start.debts):
            given.append(row)
            if debt.remaining > depth:
                row = normalised(self._left(row, ratios[:, j, None] * divide(law, row, otherwise=0)))
        return _Level(tuple(given), row, law, ratios, p, q)

    def _unserved(self, ratio: NDArray[Any]) -> NDArray[Any]:
        """Return the share (1 - min(1, t))^K of a node's mass that is not passed."""
        return np.asarray((1 - minimum_one(ratio)) ** self._paths)

    def _left(self, rows: NDArray[Any], ratio: NDArray[Any]) -> NDArray[Any]:
        """Return the weights p(x|v) (1 - min(1, t_x))^K [..., V] of what is owed, from t_x [..., V].

        Where nothing is owed the node is reached with mass zero but for rounding; the row itself then keeps
        the draw in the target's support.
        """
        left = rows * self._unserved(ratio)
        return np.where(left.sum(axis=-1, keepdims=True) > 0, left, rows)

    def passing(self, depth: int) -> NDArray[Any]:
        """Return w(v) of all nodes of one depth, [V^d]."""
        level = self._levels[depth]
        return np.asarray(level.p * (1 - self._unserved(divide(level.q, level.p, otherwise=0))))

    @cached_property
    def _owed(self) -> list[NDArray[Any]]:
        """The rows of `owed`, [V^d, V] for each depth d."""
        ratios = [divide(level.q, level.p, otherwise=0) for level in self._levels[1:]]
        inner = [
            self._left(level.target, ratio.reshape(level.target.shape))
            for level, ratio in zip(self._levels[:-1], ratios, strict=True)
        ]
        return [*inner, self._levels[-1].target]

    @cached_property
    def _nodes(self) -> list[Context]:
        tokens = range(self.vocab_size)
        return [node for depth in range(self._length + 1) for node in product(tokens, repeat=depth)]

    @cached_property
    def _plan(self) -> dict[frozenset[Context], tuple[list[Context], NDArray[Any]]]:
        """The nodes of every draft tree, named by its distinct paths, and the masses that stop there."""
        masses = [self.passing(depth) for depth in range(self._length + 1)]
        below = [mass.reshape(-1, self.vocab_size).sum(axis=1) for mass in masses[1:]]
        stops = np.concatenate(
            [mass - under for mass, under in zip(masses[:-1], below, strict=True)] + masses[-1:]
        )
        stops = positive_part(stops)
        leaves = self._nodes[-len(masses[-1]) :]
        trees: dict[frozenset[Context], Any] = {}
        for drawn, orders in multisets(len(leaves), self._paths):
            mass = self._levels[-1].q[list(drawn)].prod() * orders
            if mass > 0:
                paths = frozenset(leaves[leaf] for leaf in drawn)
                trees[paths] = trees.get(paths, mass * 0) + mass
        number = {node: index for index, node in enumerate(self._nodes)}
        nodes = [sorted({path[:d] for path in paths for d in range(self._length + 1)}) for paths in trees]
        probabilities = np.array(list(trees.values()), dtype=stops.dtype)
        plan = transport_plan(
            stops, [np.array([number[node] for node in tree]) for tree in nodes], probabilities
        )
        return dict(zip(trees, zip(nodes, plan, strict=True), strict=True))

    def stop_law(self, paths: list[list[int]]) -> tuple[list[Context], NDArray[Any]]:
        """Return the nodes of the tree of these paths and the masses with which to stop at them."""
        return self._plan[frozenset(map(tuple, paths))]

    def _find(self, node: Context) -> tuple[_Level, int]:
        index = 0
        for token in node:
            index = index * self.vocab_size + token
        return self._levels[len(node)], index

    def owed(self, node: Context) -> NDArray[Any]:
        """Return the weights [V] of the token after ``node``: what is owed there; p after a whole path."""
        _, index = self._find(node)
        row: NDArray[Any] = self._owed[len(node)][index]
        return row

    def after(self, node: Context, token: int) -> Position:
        """Return the position after ``node`` and ``token``, with the debts that are still open there."""
        context = (*self._position.context, *node, token)
        if len(node) == self._length:
            return Position(context)
        child, index = self._find((*node, token))
        emitted = len(node) + 1
        own = Debt(divide(child.q, child.p, otherwise=0)[index], self._length - emitted)
        moved = [
            Debt(ratio, debt.remaining - emitted)
            for ratio, debt in zip(child.ratios[index], self._position.debts, strict=True)
        ]
        return Position(context, tuple(debt for debt in (*moved, own) if debt.remaining > 0))
