"""Draft trees of the check `shapes`: of other sizes than those of `joint`, up to trees as drafters make them.

All trees of an instance are tried, so that large ones need rows that leave few of them possible: of a tree
with three to five children a node, or five tokens deep, one node is *open*. Its children are any of a few
tokens, which the target may take or not; elsewhere one token is certain to be drafted, and the target takes
it with probability 3/4.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.audit.draftings import ToyDrafts, label
from spec_oracle.audit.instances import DENOMINATOR, main_instances, panel
from spec_oracle.exact.drafting import (
    Drafting,
    DraftLaw,
    LikeliestNodes,
    ShapedTrees,
    StochasticBeam,
    TreeShape,
)
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance, ToyModel
from verifiers import EMPTY, ROOT, Siblings


def later_sizes(accepts: Collection[Siblings], seed: int) -> Sequence[ToyDrafts]:
    """Return the trees that `shapes` tries, of every law that is accepted: kinds with few of them first."""
    return sorted(_later_sizes(accepts, seed), key=lambda case: case.num_trees)


def _later_sizes(accepts: Collection[Siblings], seed: int) -> Iterator[ToyDrafts]:
    number = 0
    for law in Siblings:
        if law not in accepts:
            continue
        for kind, vocab, length, drafting in _BEAMS if law is Siblings.BEAM else _sizes_of(law):
            toys = panel(vocab, length, 1, seed)
            name = main_instances(toys)[number % 2]
            number += 1
            yield ToyDrafts(name, name, f"{label(law)}, {kind}", toys[name], drafting)
    for law in Siblings:
        if law in accepts and law is not Siblings.BEAM:
            yield from _of_drafters(law, seed)


_BEAMS: Final = (
    ("a stochastic beam of 3", 4, 2, StochasticBeam(3)),
    ("a stochastic beam of 2", 2, 3, StochasticBeam(2)),
)


def _sizes_of(law: Siblings) -> Iterator[tuple[str, int, int, Drafting]]:
    two = (2, 1) if law is Siblings.PATHS else (2, 2)
    yield "three children", 3, 1, ShapedTrees(TreeShape.fan_out(3), law)
    yield "two children", 4, 2, ShapedTrees(TreeShape.fan_out(2, 1), law)
    yield "three tokens deep", 2, 3, ShapedTrees(TreeShape.fan_out(2, 1, 1), law)
    for early in ({"least_token": 0.3}, {"least_top": 0.6}):
        ends = ShapedTrees(TreeShape.fan_out(*two), law, **early)
        yield f"paths that end early ({next(iter(early))})", 3, 2, ends
    if law is not Siblings.PATHS:
        ragged = ShapedTrees(TreeShape((ROOT, ROOT, ROOT, 0)), law)
        yield "three children, one of which goes on", 3, 2, ragged
    if law is Siblings.TOP:
        yield from ((f"the {count} likeliest contexts", 3, 2, LikeliestNodes(count)) for count in (1, 6))


@dataclass(frozen=True)
class InOrder:
    """Trees of another drafting with their places in another ``order``: slot ``order[i]`` lies at place i.

    Slots of one depth keep their order, so that siblings stay in the order in which they are drawn.
    """

    drafting: ShapedTrees
    order: tuple[int, ...]

    @property
    def siblings(self) -> Siblings:
        """The law of siblings."""
        return self.drafting.siblings

    def law(self, instance: Instance, end: float = math.inf) -> DraftLaw:
        """Enumerate the trees; errors as of the drafting."""
        found, order = self.drafting.law(instance, end), np.array(self.order)
        places = np.concatenate([np.argsort(order), [EMPTY, ROOT]])  # the last ones are at -2 and -1
        nodes = np.column_stack([found.nodes[:, 0], found.nodes[:, 1:][:, order]])
        return DraftLaw(found.tokens[:, order], places[found.parents[:, order]], nodes, found.probability)


def depth_first(shape: TreeShape) -> tuple[int, ...]:
    """Return the slots of a shape in depth-first order.

    >>> depth_first(TreeShape.fan_out(2, 2))
    (0, 2, 3, 1, 4, 5)
    """
    ways: list[tuple[int, ...]] = []
    for slot, above in enumerate(shape.parents):
        ways.append((*(ways[above] if above >= 0 else ()), slot))
    return tuple(sorted(range(len(ways)), key=ways.__getitem__))


def in_turn(shape: TreeShape, seed: int) -> tuple[int, ...]:
    """Return the slots in a random order: parents come first, and slots of one depth in their order."""
    rng, left, order = stream(seed, "larger trees/order"), [*range(len(shape.parents))], list[int]()
    while left:
        firsts = {shape.depths[slot]: slot for slot in reversed(left)}.values()
        slot = int(rng.choice([one for one in firsts if shape.parents[one] in {ROOT, *order}]))
        order.append(slot)
        left.remove(slot)
    return tuple(order)


def open_at(depth: int, vocab: int, length: int, support: int, seed: int) -> Instance:
    """Return an instance whose draft leaves a choice after ``depth`` tokens only: among ``support`` ones."""
    rng = stream(seed, "larger trees/rows", depth, vocab, length)
    target, draft = list[Floats](), list[Floats]()
    for level in range(length + 1):
        count = vocab**level
        certain, other = (np.eye(vocab)[rng.integers(vocab, size=count)] for _ in range(2))
        if level != depth:
            target.append(0.75 * certain + 0.25 * other)
            draft.append(certain)
            continue
        target.append(
            (1 + rng.multinomial(DENOMINATOR - vocab, np.full(vocab, 1 / vocab), count)) / DENOMINATOR
        )
        some = 1 + rng.multinomial(DENOMINATOR - support, np.full(support, 1 / support), count)
        padded = np.pad(some, ((0, 0), (0, vocab - support)))
        draft.append(rng.permuted(padded, axis=1) / DENOMINATOR)
    return Instance(ToyModel.from_levels(target), ToyModel.from_levels(draft[:length]), length)


_STEMS: Final = ((0, 3, 5, 4), (1, 4, 6, 5), (2, 5, 6, 4))
"""Tokens before the open node, its children, V and L: as trees of drafters are, fan-outs of 3 to 5."""

_SUPPORT: Final = 5
"""Tokens that may be drafted at an open node: five children have 5^5 trees then."""


def _of_drafters(law: Siblings, seed: int) -> Iterator[ToyDrafts]:
    """Yield trees with one open node, with their places in depth-first and in random order."""
    for number, (stem, children, vocab, length) in enumerate(_STEMS):
        shape = TreeShape.fan_out(*[1] * stem, children, *[1] * (length - stem - 1))
        orders = {"depth-first": depth_first(shape), "random": in_turn(shape, seed + number)}
        order = [*orders][number % 2]
        kind = f"{children} children after {stem} tokens, places in {order} order"
        drafting = InOrder(ShapedTrees(shape, law), orders[order])
        toy = open_at(stem, vocab, length, min(children + 1, _SUPPORT), seed)
        yield ToyDrafts("open node", "open node", f"{label(law)}, {kind}", toy, drafting)
