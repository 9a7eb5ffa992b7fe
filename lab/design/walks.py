"""Tokens per call of rules that walk down the tree, on any shape: one run a node and number of drafts.

A one-step rule emits a token x at a node; the walk goes on if x was drafted there, c times, and the next node
has c times as many drafts as the shape says. So the law of (x, c) at every node and number of drafts is all
there is to know: the rule's own code is run for it, once, and all shapes and budgets share it.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from math import comb, perm
from typing import Any

import numpy as np

import verifiers
from lab.design.models import Models
from spec_oracle.arrays import Numbers
from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.emission import node_steps
from verifiers import Siblings, traits_of

MAX_NODE_DRAFTS = 300_000
"""The most draft tuples, over all nodes of a depth that the target may reach, that are run."""

Steps = Callable[[int, int], Numbers]
"""By depth and number of drafts n: the mass [V^depth, V, n+1] of the emitted token and its count."""


class TooManyDraftsError(SpecOracleError):
    """The nodes of a depth have more draft tuples than are run."""


def steps_of(rule: str, drafting: Siblings, models: Models) -> Steps:
    """Return the law of (x, c) at the nodes of ``models`` of a walking rule, with drafts from ``drafting``.

    What it returns raises `TooManyDraftsError` past `MAX_NODE_DRAFTS`.
    """
    verifier: Any = verifiers.get(rule)
    any_order = traits_of(verifier).any_order
    run = partial(node_steps, verifier, drafting, chosen=models.chosen, any_order=any_order)

    @cache
    def steps(depth: int, drafts: int) -> Numbers:
        level = models.target[depth], models.draft[depth]
        nodes, vocab = level[0].shape
        mass = models.reachable[depth]
        if mass.sum() * _tuples(models.widest, drafts, drafting, any_order=any_order) > MAX_NODE_DRAFTS:
            raise TooManyDraftsError(f"{rule}: more than {MAX_NODE_DRAFTS:,} draft tuples at one depth")
        law = np.broadcast_to(level[0][:, :, None] * 0, (nodes, vocab, drafts + 1)).copy()
        for node, token, count, weight in run(level, mass, drafts):
            np.add.at(law, (node, token, count), weight)
        return law

    return steps


def _tuples(vocab: int, drafts: int, drafting: Siblings, *, any_order: bool) -> int:
    if drafting is Siblings.TOP_AND_SAMPLED:
        return vocab
    if drafting is Siblings.DISTINCT:
        return int(perm(vocab, min(vocab, drafts)) * vocab ** max(0, drafts - vocab))
    return comb(vocab + drafts - 1, drafts) if any_order else int(vocab**drafts)


def walked_tokens(steps: Steps, shape: FanOuts, models: Models) -> Any:
    """Return the tokens per call of a walk down a tree of this shape."""
    tokens, reached = models.one[0], {1: models.one}
    for depth, fan_out in enumerate(shape.fan_outs):
        below: dict[int, Any] = defaultdict(int)
        for copies, mass in reached.items():
            masses = mass[:, None, None] * steps(depth, copies * fan_out)
            for count in range(1, masses.shape[2]):
                if (masses[:, :, count] > 0).any():
                    below[count] = below[count] + masses[:, :, count].reshape(-1)
        reached = dict(below)
        tokens = tokens + sum(mass.sum() for mass in reached.values())
    return tokens
