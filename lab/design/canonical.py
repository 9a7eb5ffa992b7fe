"""Canonical decomposition: the law of the emitted token and its number of drafts, multiset by multiset.

One of n independent drafts is selected with a chance in proportion to p/q, whatever their order, and tested
against the law s of the selection: accepted with min(1, p/s), else a token of (p - s)+, which may be another
draft (`verifiers.rules.canonical`).
"""

from functools import cache, lru_cache
from math import comb

import numpy as np

from lab.design.models import Models
from lab.design.walks import Steps, TooManyDraftsError
from spec_oracle.arrays import Integers, Numbers
from verifiers.arrays import divide, minimum_one, normalised
from verifiers.parts.path import residual
from verifiers.parts.transport_plan import multisets
from verifiers.rules.canonical import importance

MAX_MULTISETS = 500_000
"""The most multisets of drafts, over all nodes of a depth, that are run."""


def canonical_steps(models: Models) -> Steps:
    """Return the law of (x, c) at the nodes of ``models``, as `walks.steps_of`.

    What it returns raises `TooManyDraftsError` past `MAX_MULTISETS` multisets.
    """

    @cache
    def steps(depth: int, drafts: int) -> Numbers:
        target, draft = models.target[depth], models.draft[depth]
        nodes, vocab = target.shape
        reachable = np.flatnonzero(models.reachable[depth] > 0)
        if len(reachable) * comb(models.widest + drafts - 1, drafts) > MAX_MULTISETS:
            raise TooManyDraftsError(f"canonical: more than {MAX_MULTISETS:,} sets of drafts at one depth")
        law = np.broadcast_to(target[:, :, None] * 0, (nodes, vocab, drafts + 1)).copy()
        for node in reachable:
            law[node] = _at_node(target[node], draft[node], drafts)
        return law

    return steps


@lru_cache(maxsize=32)
def _multisets(outcomes: int, size: int) -> tuple[Integers, Integers]:
    """Return all sorted tuples of outcomes, int [T, size], and how many orders each has, [T]."""
    chosen, orders = zip(*multisets(outcomes, size), strict=True)
    return np.array(chosen), np.array(orders)


def _at_node(target: Numbers, draft: Numbers, drafts: int) -> Numbers:
    """Return the law [V, n+1] at one node of rows [V]."""
    every, support = np.arange(len(draft)), np.flatnonzero(draft > 0)
    places, orders = _multisets(len(support), drafts)
    tokens = support[places]
    probability = draft[tokens].prod(axis=1) * orders
    chances = importance(target[None, :], draft[None, :])[0][tokens]
    # The first draft is selected where all have chance 0.
    chances[:, 0] = np.where(chances.sum(axis=1) > 0, chances[:, 0], chances[:, 0] * 0 + 1)
    counts = (tokens[:, :, None] == every).sum(axis=1)
    selected = np.broadcast_to(draft * 0, counts.shape).copy()
    selecting = probability[:, None] * normalised(chances)
    np.add.at(selected, (np.arange(len(tokens))[:, None], tokens), selecting)
    law = selected.sum(axis=0)
    kept = selected * minimum_one(divide(target, law, otherwise=0))
    refused = (selected - kept).sum(axis=1, keepdims=True)
    emitted = kept + refused * normalised(residual(target, law)[None, :])
    found = np.broadcast_to(draft[:, None] * 0, (len(draft), drafts + 1)).copy()
    np.add.at(found, (np.broadcast_to(every, counts.shape), counts), emitted)
    return found
