"""The law of texts of N tokens under plain decoding, as a tree of the likely tokens.

Nodes are expanded by rows, the most probable first, as long as they are worth it. The leaves are cells: a
whole text; the texts that begin with a prefix that was not expanded; and at each node all tokens but those
that have cells of their own. So every text is in one cell, and the law of the cells is known.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.apis import Token
from spec_oracle.audit.server.one_token import PlainRows
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.server import Context

Leaf: TypeAlias = tuple[Context, bool]
"""A context, and whether the cell holds its texts (False), or those that go on with another (True)."""

Open: TypeAlias = tuple[float, int, Context, float]
"""What is to be expanded: minus its mass, a number that breaks ties, the context, and its slack."""

RARE: Leaf = ((-1, ()), True)
"""All that is too rare for a cell of its own, wherever it is."""

IMPOSSIBLE: Leaf = ((-2, ()), True)
"""What filters rule out; one draw there is a proof."""


@dataclass(frozen=True, eq=False)
class PlainTree:
    """Cells of texts of at most ``length`` tokens after a prompt chosen at random, and their law [C].

    The true law is within a factor of exp(+-``slack``) [C] of ``law``. ``cells`` holds the number of the cell
    of every leaf, ``leaves`` the leaf of every cell that is its own; ``expanded`` the contexts between.
    """

    length: int
    cells: Mapping[Leaf, int]
    leaves: tuple[Leaf, ...]
    expanded: frozenset[Context]
    ends: frozenset[Token]
    law: NDArray[np.float64]
    slack: NDArray[np.float64]

    @property
    def depth(self) -> NDArray[np.int64]:
        """In how many tokens the texts of a cell agree, [C]."""
        return np.array([len(tokens) for (_, tokens), _ in self.leaves])

    @property
    def is_text(self) -> NDArray[np.bool_]:
        """Whether a cell holds one text only, [C]."""
        whole = [
            len(tokens) == self.length or not self.ends.isdisjoint(tokens[-1:])
            for (_, tokens), _ in self.leaves
        ]
        return np.array([full and not other for full, (_, other) in zip(whole, self.leaves, strict=True)])

    def cell(self, number: int, tokens: tuple[Token, ...]) -> int:
        """Return the cell of a text after prompt ``number``; raises `ContractError` for what is no text."""
        if len(tokens) > self.length:
            raise ContractError(f"a text of {len(tokens)} tokens where at most {self.length} were asked for")
        over = next((token for token in tokens[:-1] if token in self.ends), None)
        if over is not None:
            raise ContractError(f"a text goes on after the token {over!r}, which ends texts: {tokens!r}")
        for depth in range(len(tokens)):
            context, child = (number, tokens[:depth]), (number, tokens[: depth + 1])
            if context not in self.expanded:
                return self.cells[context, False]
            if child not in self.expanded:
                return self.cells.get((child, False), self.cells[context, True])
        raise ContractError(f"a text stops after {len(tokens)} of {self.length} tokens: {tokens!r}")


def plain_tree(rows: PlainRows, length: int, smallest: float) -> PlainTree:
    """Return the tree of all prompts together, of texts of ``length`` tokens; asks for rows as it grows.

    Cells of less mass than ``smallest`` are merged: with what else follows their node, then with each other,
    and at last with the smallest other one. Nodes of less than twice that mass are not expanded. At most
    length / smallest rows are asked for.
    """
    server = rows.server
    ends = frozenset(server.ends)
    expanded: set[Context] = set()
    masses: dict[Leaf, float] = {}
    errors: dict[Leaf, float] = {}
    tie = count()
    heap: list[Open] = [
        (-1 / len(server.prompts), next(tie), (n, ()), 0.0) for n in range(len(server.prompts))
    ]
    while heap:
        batch = [heapq.heappop(heap) for _ in range(min(len(heap), 4 * server.client.limits.concurrency))]
        rows.fetch(context for _, _, context, _ in batch)
        server.progress("plain law", len(expanded), 0)
        for minus, _, context, slack in batch:
            mass, row = -minus, rows.row(context)
            if row is None:
                _add(masses, errors, (context, False), mass, mass * math.expm1(slack))
                continue
            expanded.add(context)
            inside = mass * math.expm1(slack) * row.other + mass * math.exp(slack) * row.other_error
            _add(masses, errors, (context, True), mass * row.other, inside)
            number, tokens = context
            for token, probability in zip(row.tokens, row.probabilities, strict=True):
                child, share = (number, (*tokens, token)), mass * float(probability)
                is_open = len(child[1]) < length and token not in ends
                if is_open and share >= 2 * smallest:
                    heapq.heappush(heap, (-share, next(tie), child, slack + row.slack))
                else:
                    leaf = (child, False) if share >= smallest else (context, True)
                    _add(masses, errors, leaf, share, share * math.expm1(slack + row.slack))
    impossible = {leaf for leaf, mass in masses.items() if mass == 0 == errors[leaf]}
    rare = [leaf for leaf, mass in masses.items() if mass < smallest and leaf not in impossible]
    kept = sorted((leaf for leaf in masses if masses[leaf] >= smallest), key=lambda leaf: -masses[leaf])
    if kept and rare and sum(masses[leaf] for leaf in rare) < smallest:
        rare.append(kept.pop())
    groups = {leaf: [leaf] for leaf in kept} | {RARE: rare, IMPOSSIBLE: [*impossible]}
    leaves = tuple(leaf for leaf, group in groups.items() if group)
    law = np.array([sum(masses[leaf] for leaf in groups[cell]) for cell in leaves])
    error = np.array([sum(errors[leaf] for leaf in groups[cell]) for cell in leaves])
    cells = {leaf: number for number, cell in enumerate(leaves) for leaf in groups[cell]}
    return PlainTree(length, cells, leaves, frozenset(expanded), ends, law / law.sum(), log_error(law, error))


def _add(masses: dict[Leaf, float], errors: dict[Leaf, float], leaf: Leaf, mass: float, error: float) -> None:
    masses[leaf] = masses.get(leaf, 0.0) + mass
    errors[leaf] = errors.get(leaf, 0.0) + error


def log_error(masses: NDArray[np.float64], errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors of masses in nats, downwards, where they are larger; large where nothing is known."""
    share = np.divide(errors, masses, out=np.where(errors > 0, 1.0, 0.0), where=masses > 0)
    return np.asarray(-np.log1p(-np.minimum(share, 1 - 1e-9)))
