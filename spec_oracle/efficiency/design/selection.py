"""Rules that select one of n independent drafts: the law of the selected token and of how often it was drafted.

Selection does not look at the order of the drafts, so each multiset of them is run once, with the rules' own
code. `global_resolution` and `canonical` then test the selected draft against the law s of the selection, as
the token rule does: accepted with min(1, p/s), else a token of (p - s)+, which may be another draft.
"""

from collections.abc import Callable
from functools import cache
from math import comb

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.efficiency.design.models import Models
from spec_oracle.efficiency.design.walks import MAX_NODE_DRAFTS, Steps, TooManyDraftsError
from spec_oracle.exact.drafting import multiset_law
from verifiers import Drafting
from verifiers.arrays import divide, minimum_one, normalised
from verifiers.parts.balanced_selection import balanced_plan, chances_to_be_selected
from verifiers.parts.residual import residual
from verifiers.rules.canonical import importance

Selection = Callable[[Numbers, Numbers, Integers], Numbers]
"""The chance [T, n] of each draft, given the rows p and q [T, V] and the drafts int [T, n]."""


def balanced(target: Numbers, draft: Numbers, tokens: Integers) -> Numbers:
    """Return the chances of balanced selection (`verifiers.parts.balanced_selection`)."""
    plan = balanced_plan(target, draft, np.full(len(tokens), tokens.shape[1]))
    chances: Numbers = chances_to_be_selected(plan, tokens, np.ones(tokens.shape, dtype=bool))
    return chances


def by_importance(target: Numbers, draft: Numbers, tokens: Integers) -> Numbers:
    """Return the chances in proportion to p/q (`verifiers.rules.canonical`); the first draft's where all are 0."""
    chances = np.take_along_axis(importance(target, draft), tokens, axis=1)
    chances[:, 0] = np.where(chances.sum(axis=1) > 0, chances[:, 0], chances[:, 0] * 0 + 1)
    return normalised(chances)


def selected_steps(models: Models, selection: Selection, *, tested: bool) -> Steps:
    """Return the law of the selected token x and how often it was drafted, or of what is emitted if ``tested``.

    As `walks.steps_of`. What it returns raises `TooManyDraftsError` past `MAX_NODE_DRAFTS` multisets.
    """

    @cache
    def steps(depth: int, drafts: int) -> Numbers:
        target, draft = models.target[depth], models.draft[depth]
        nodes, vocab = target.shape
        if nodes * comb(vocab + drafts - 1, drafts) > MAX_NODE_DRAFTS:
            raise TooManyDraftsError(f"selection among {drafts} drafts: too many multisets")
        law = np.broadcast_to(target[:, :, None] * 0, (nodes, vocab, drafts + 1)).copy()
        for node in range(nodes):
            law[node] = _at_node(target[node], draft[node], drafts, selection, tested=tested)
        return law

    return steps


def _at_node(target: Numbers, draft: Numbers, drafts: int, selection: Selection, *, tested: bool) -> Numbers:
    """Return the law [V, n+1] at one node of rows [V]."""
    drawn = multiset_law([draft[None, :]], drafts, Drafting.INDEPENDENT)
    tokens, every = drawn.tokens[:, :, 0], np.arange(len(draft))
    rows = (np.broadcast_to(row, (len(tokens), len(row))) for row in (target, draft))
    counts = (tokens[:, :, None] == every).sum(axis=1)
    selected = np.broadcast_to(draft * 0, counts.shape).copy()
    chances = drawn.probability[:, None] * selection(*rows, tokens)
    np.add.at(selected, (np.arange(len(tokens))[:, None], tokens), chances)
    if tested:
        law = selected.sum(axis=0)
        kept = selected * minimum_one(divide(target, law, otherwise=0))
        refused = (selected - kept).sum(axis=1, keepdims=True)
        selected = kept + refused * normalised(residual(target, law)[None, :])
    found = np.broadcast_to(draft[:, None] * 0, (len(draft), drafts + 1)).copy()
    np.add.at(found, (np.broadcast_to(every, counts.shape), counts), selected)
    return found
