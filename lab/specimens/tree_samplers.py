"""Tree samplers: functions of draft trees that sample by themselves; each faulty one is one bug, isolated.

All are one right walk with one part replaced: recursive rejection down the tree of a request, of siblings
that were drawn without replacement unless a specimen says otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.specimen import specimen
from verifiers import ROOT, Siblings

Array: TypeAlias = Any
Rows: TypeAlias = tuple[Array, Array]
"""Rows of the target and of the draft [V]."""


def draw(row: Array, generator: Any) -> int:
    """Sample a token from a row [V]."""
    return int(generator.choice(len(row), p=row / row.sum()))


def ratio(rows: Rows, token: int) -> float:
    """Return the chance to accept a sibling: p/q."""
    target, draft = rows
    return float(target[token] / draft[token]) if draft[token] > 0 else 0.0


def left_without(rows: Rows, token: int) -> Rows:
    """Go on with the residual, and with q without the refused token, both normalised."""
    target, draft = rows
    struck = np.where(np.arange(len(draft)) == token, 0.0, draft)
    return _normalised(np.maximum(target - draft, 0.0)), _normalised(struck)


def left_of_independent(rows: Rows, token: int) -> Rows:
    """Go on with the residual and with q as it is: siblings are independent."""
    return left_without(rows, token)[0], rows[1]


def _normalised(row: Array) -> Array:
    return row / row.sum() if row.sum() > 0 else row


def row_after(node: int, depth: int) -> int:
    """Return which row follows a place, or the root, with ``depth`` tokens before it."""
    return node + 1


@dataclass(frozen=True)
class TreeWalk:
    """Recursive rejection down the draft tree of each request."""

    chance: Callable[[Rows, int], float] = ratio
    left: Callable[[Rows, int], Rows] = left_without
    row: Callable[[int, int], int] = row_after
    accepts: frozenset[Siblings] = frozenset({Siblings.DISTINCT})

    def verify_tree(
        self, tokens: Array, parents: Array, draft_probs: Array, target_probs: Array, generator: Any
    ) -> tuple[Array, Array]:
        """Verify draft trees."""
        requests = zip(tokens.tolist(), parents.tolist(), draft_probs, target_probs, strict=True)
        return padded([self._walk(*request, generator) for request in requests], tokens.shape[1])

    def _walk(
        self, tokens: list[int], parents: list[int], draft: Array, target: Array, generator: Any
    ) -> list[int]:
        """Return the tokens that a request emits; siblings are tested in turn."""
        node, emitted = ROOT, list[int]()
        while True:
            at, accepted = self.row(node, len(emitted)), None
            rows = target[at], draft[at]
            for place in (place for place, parent in enumerate(parents) if parent == node):
                if generator.random() < self.chance(rows, tokens[place]):
                    accepted = place
                    break
                rows = self.left(rows, tokens[place])
            if accepted is None:
                return [*emitted, draw(rows[0], generator)]
            node = accepted
            emitted.append(tokens[node])


def padded(emitted: list[list[int]], depth: int) -> tuple[Array, Array]:
    """Return emitted tokens [B, D+1], padded with -1, and how many of them were accepted [B]."""
    tokens = np.full((len(emitted), depth + 1), -1)
    for request, found in enumerate(emitted):
        tokens[request, : len(found)] = found
    return tokens, np.array([len(found) - 1 for found in emitted])


RIGHT = TreeWalk()
OF_INDEPENDENT = TreeWalk(left=left_of_independent, accepts=frozenset({Siblings.INDEPENDENT}))

sampler = partial(specimen, prefix="tree-sampler-")


def walk(part: str, right: TreeWalk = RIGHT) -> Callable[[Any], TreeWalk]:
    """Return what makes a tree sampler of a function: the right one with a ``part`` replaced."""
    return lambda function: replace(right, **{part: function})


# Controls.


@sampler("control", tree_sampler=walk("left"))
def without_replacement(rows: Rows, token: int) -> Rows:
    """Recursive rejection of siblings without replacement."""
    return left_without(rows, token)


@sampler("control", tree_sampler=walk("left", OF_INDEPENDENT))
def of_independent_siblings(rows: Rows, token: int) -> Rows:
    """Recursive rejection of independent siblings."""
    return left_of_independent(rows, token)


class OfAnyTree:
    """Takes any tree, whatever the law of siblings."""

    accepts = frozenset(Siblings)

    def __init__(self, verify_tree: Callable[..., tuple[Array, Array]]) -> None:
        self.verify_tree = verify_tree


@sampler("control", tree_sampler=OfAnyTree)
def sample_and_match(
    tokens: Array, parents: Array, draft_probs: Array, target_probs: Array, generator: Any
) -> tuple[Array, Array]:
    """Sample a token for all requests at once; walk on while a child has it."""
    batch, places = tokens.shape
    emitted = np.full((batch, places + 1), -1)
    node, going, requests = np.full(batch, ROOT), np.ones(batch, dtype=bool), np.arange(batch)
    for depth in range(places + 1):
        ends = np.cumsum(target_probs[requests, node + 1], axis=1)
        uniforms = generator.random((batch, 1)) * ends[:, -1:]
        token = np.minimum((ends <= uniforms).sum(axis=1), ends.shape[1] - 1)
        emitted[going, depth] = token[going]
        found = (parents == node[:, None]) & (tokens == token[:, None]) & going[:, None]
        going = found.any(axis=1)
        node = np.where(going, found.argmax(axis=1), node)
        if not going.any():
            break
    return emitted, (emitted >= 0).sum(axis=1) - 1


# Defects.


@sampler("mutant", "joint", tree_sampler=walk("left"))
def siblings_taken_for_independent(rows: Rows, token: int) -> Rows:
    """Siblings without replacement are judged as independent ones: q keeps those that were refused."""
    return left_of_independent(rows, token)


@sampler("mutant", "joint", tree_sampler=walk("row"))
def rows_by_depth(node: int, depth: int) -> int:
    """The row after a place is looked for at its depth, which is its index in a chain only."""
    return depth
