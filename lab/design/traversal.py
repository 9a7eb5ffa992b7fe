"""Tokens per call of traversal verification (arXiv 2505.12398) on any shape, node by node.

A node of weight a is accepted, it or a token below it, with probability a on average over what is drafted
below it; and whether a child is refused depends on no other child. So with the distinct children x_1, x_2, ..
of a node in the order in which they were drawn, and weights w_1, w_2, .., child j is offered with probability
(1 - w_1) .. (1 - w_{j-1}), its own children are as many as the shape says for each time it was drawn, and

    tokens per call = 1 + the sum of w over all offered nodes, weighted by how likely they are offered.

Target, draft and a of a node change with every refused child; see `verifiers.rules.traversal`.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from lab.design.models import Models
from lab.design.walks import TooManyDraftsError
from spec_oracle.arrays import Integers, Numbers
from spec_oracle.efficiency.trees import FanOuts
from verifiers import Siblings
from verifiers.arrays import divide, minimum_one, normalised, positive_part

MAX_OFFERS = 4_000_000
"""The most offers, of a child at a node after given refusals, that are computed at one depth."""


@dataclass(frozen=True)
class Offers:
    """S offered nodes: ``node`` int [S] among V^d, ``weight`` [S] a, ``mass`` [S] of being offered."""

    node: Integers
    weight: Numbers
    mass: Numbers

    @classmethod
    def joined(cls, parts: list["Offers"]) -> "Offers":
        """Return all of them."""
        fields = ([getattr(part, name) for part in parts] for name in ("node", "weight", "mass"))
        return cls(*(np.concatenate(field) for field in fields))


def traversal_tokens(shape: FanOuts, models: Models, drafting: Siblings = Siblings.INDEPENDENT) -> Any:
    """Return the tokens per call; drafts are independent, or distinct ones, at most V a node.

    Raises `TooManyDraftsError` past `MAX_OFFERS`.
    """
    tokens = models.one[0]
    reached = {1: Offers(np.zeros(1, dtype=np.int64), models.one, models.one)}
    for depth, fan_out in enumerate(shape.fan_outs):
        below: dict[int, list[Offers]] = defaultdict(list)
        for copies, at in reached.items():
            current: _Round | None = _Round.first(models, depth, at, copies * fan_out)
            while current is not None:
                offers, current = current.offered(drafting)
                for count, offered in offers.items():
                    tokens = tokens + (offered.mass * offered.weight).sum()
                    below[count].append(offered)
        reached = {count: Offers.joined(parts) for count, parts in below.items()}
    return tokens


@dataclass(frozen=True)
class _Round:
    """Nodes whose next distinct child is drawn, after the same number of refusals each.

    ``target`` and ``draft`` [S, V] are what is left of both models there, ``weight`` [S] is a; ``mass``
    [S, n+1] that of being there with 0..n drafts left.
    """

    node: Integers
    target: Numbers
    draft: Numbers
    weight: Numbers
    mass: Numbers

    @classmethod
    def first(cls, models: Models, depth: int, at: Offers, drafts: int) -> "_Round":
        """Return the nodes ``at`` a depth before the first child, with as many ``drafts`` each."""
        mass = at.mass[:, None] * (np.arange(drafts + 1) == drafts)
        return cls(at.node, models.target[depth][at.node], models.draft[depth][at.node], at.weight, mass)

    def offered(self, drafting: Siblings) -> tuple[dict[int, Offers], "_Round | None"]:
        """Return the next children by how often they were drawn, and the round after their refusal."""
        if (self.draft > 0).sum() * self.draft.shape[1] > MAX_OFFERS:
            raise TooManyDraftsError(
                f"traversal: more than {MAX_OFFERS:,} possible children at one depth, too many to compute"
            )
        row, token = np.nonzero(np.asarray(self.draft > 0, dtype=bool))
        every, weight = np.arange(len(row)), self.weight[row]
        target, draft, mass = self.target[row], self.draft[row], self.mass[row]
        drawn = draft[every, token]
        child = self.node[row] * draft.shape[1] + token
        passing = minimum_one(weight * divide(target[every, token], drawn, otherwise=0))
        by_count, after = _repeats(mass * drawn[:, None], drawn, drafting)
        offers = {count: _possible(Offers(child, passing, one)) for count, one in by_count.items()}
        after = after * (1 - passing)[:, None]
        going_on = np.asarray(after.sum(axis=1) > 0, dtype=bool)
        if not going_on.any():
            return offers, None
        left = positive_part(weight[:, None] * target - draft)
        surplus = left.sum(axis=1)
        target = np.where((surplus > 0)[:, None], divide(left, surplus[:, None], otherwise=0), target)
        weight = divide(surplus, surplus + (1 - weight), otherwise=1)
        draft = draft.copy()
        draft[every, token] *= 0
        parts = (self.node[row], target, normalised(draft), weight, after)
        return offers, _Round(*(part[going_on] for part in parts))


def _repeats(mass: Numbers, drawn: Numbers, drafting: Siblings) -> tuple[dict[int, Numbers], Numbers]:
    """Return the mass [S] of each number of drafts that a child takes, and what is left, [S, n+1].

    ``mass`` [S, n+1] by the drafts left before. The child has been drawn by the first one; of independent
    drafts each of the others repeats it with its probability ``drawn`` [S] among tokens not refused.
    """
    by_count: dict[int, Numbers] = {}
    after = mass * 0
    for left in range(1, mass.shape[1]):
        if not (mass[:, left] > 0).any():
            continue
        for count in range(1, left + 1 if drafting is Siblings.INDEPENDENT else 2):
            one = mass[:, left]
            if drafting is Siblings.INDEPENDENT:
                one = one * comb(left - 1, count - 1) * drawn ** (count - 1) * (1 - drawn) ** (left - count)
            by_count[count] = by_count.get(count, 0) + one
            after[:, left - count] += one
    after[:, 0] *= 0
    return by_count, after


def _possible(offers: Offers) -> Offers:
    """Return those that can be accepted."""
    here = np.asarray(offers.mass * offers.weight > 0, dtype=bool)
    return Offers(offers.node[here], offers.weight[here], offers.mass[here])
