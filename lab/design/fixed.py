"""Draft trees whose nodes are chosen, not sampled, and trees whose slots are chosen for how often they count.

On a tree that holds no random token no lossless rule emits more than the target's probability of all nodes
of it, the root included, and a walk with samples of the target attains that (docs/theory.md, "Multi-path
rules"). So the tree is all there is to choose:

* the N prefixes that are likeliest under the draft, as EAGLE-2 expands them (arXiv 2406.16858);
* the N ranks of tokens (likeliest, second, ...) with the most target probability over other prompts, the same
  tree after every context, as Medusa and EAGLE have it (2401.10774, 2401.15077);
* for comparison, the N prefixes that are likeliest under the target: no drafter knows them.

Sequoia (2402.12374) chooses, over other prompts, the slots of drafts without replacement: recursive rejection
tests them in turn, so that whether the k-th is accepted does not depend on what comes after it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lab.design.models import Models, joint
from lab.design.walks import Steps
from spec_oracle.arrays import Numbers

Place = tuple[int, int]
"""A node, or a path of ranks or slots, of depth d + 1: (d, its index in lexicographic order)."""


def likeliest_nodes(rows: tuple[Numbers, ...], budget: int) -> list[Place]:
    """Return the ``budget`` likeliest prefixes of the model with ``rows[d]`` [V^d, V]; fewer if others are 0.

    Of equally likely ones the shorter, then the lexicographically first goes first.
    """
    masses = joint(rows)
    likely = np.concatenate(masses)
    order = np.argsort(-likely, kind="stable")[:budget]
    starts = np.cumsum([0, *map(len, masses)])
    places = []
    for index in order[np.asarray(likely[order] > 0, dtype=bool)].tolist():
        depth = int(np.searchsorted(starts, index, side="right")) - 1
        places.append((depth, index - int(starts[depth])))
    return places


def rank_values(models: Models) -> list[Numbers]:
    """Return the target's probability of the tokens of draft ranks k_1, .., k_d, [V^d], d = 1..L.

    It is 0 from a token on that the draft never samples: no drafter knows its rank.
    """
    node, mass, values = np.zeros(1, dtype=np.int64), models.one, []
    for target, draft in zip(models.target, models.draft, strict=True):
        token = np.argsort(-draft[node], axis=1, kind="stable")
        known = target[node] * (draft[node] > 0)
        mass = (mass[:, None] * np.take_along_axis(known, token, axis=1)).reshape(-1)
        node = (node[:, None] * models.vocab_size + token).reshape(-1)
        values.append(mass)
    return values


def slot_values(models: Models, steps: Steps, slots: int) -> list[Numbers]:
    """Return the probability that drafts of slots k_1, .., k_d are accepted, [slots^d], d = 1..L.

    ``steps`` are those of recursive rejection of distinct drafts: what slot k adds is the difference of k and
    k - 1 drafts.
    """
    mass, values = models.one[None, :], []
    for depth in range(models.depth):
        upto = [steps(depth, drafts)[:, :, 1:].sum(axis=2) for drafts in range(1, slots + 1)]
        accepted = np.stack([upto[0], *(more - less for less, more in pairwise(upto))])
        if depth == models.depth - 1:
            values.append((mass @ accepted.sum(axis=2).T).reshape(-1))
            break
        # mass [slots^d, V^d] times accepted [slots, V^d, V]
        mass = (mass[:, None, :, None] * accepted[None]).reshape(len(mass) * slots, -1)
        values.append(mass.sum(axis=1))
    return values


def best_places(values: Sequence[Numbers], budget: int, *, in_order: bool) -> list[Place]:
    """Return at most ``budget`` places of a tree of the greatest sum of ``values[d]`` [n^d], none of value 0.

    A place is taken after its parent and, ``in_order``, after its earlier sibling. Places are taken one by
    one, each time the one of the greatest value. That is the best tree where values fall from parent to child
    and, ``in_order``, from sibling to sibling.
    """
    width = len(values[0])

    def siblings(depth: int, first: int) -> set[Place]:
        return {(depth, first + place) for place in range(1 if in_order else width)}

    open_, taken = siblings(0, 0), list[Place]()
    while open_ and len(taken) < budget:
        depth, index = max(open_, key=lambda place: (values[place[0]][place[1]], -place[0], -place[1]))
        if not values[depth][index] > 0:
            break
        open_.remove((depth, index))
        taken.append((depth, index))
        if in_order and index % width + 1 < width:
            open_.add((depth, index + 1))
        if depth + 1 < len(values):
            open_ |= siblings(depth + 1, index * width)
    return taken


def places_tokens(values: Sequence[Numbers], places: Sequence[Place]) -> Any:
    """Return the tokens per call of a tree of these places, each of which is passed with its value."""
    return 1 + sum(values[depth][index] for depth, index in places)


def levels_of(places: Sequence[Place]) -> int:
    """Return the depth of a tree of these places."""
    return 1 + max((depth for depth, _ in places), default=-1)
