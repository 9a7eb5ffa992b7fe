"""The joint law of what balanced selection selects and of how many drafts agree with it; toys only.

At a node with m drafts the selected token x is shared by n of them. `balanced_multipath_block` verifies the
path with rows given the realised m. The path alone, without its counts, has a law too,

    sbar(x | v) = sum_m pi(m | v) s^(m)(x | v),     pi = law of the count at v, given that the path passes v,

and one path of known law is all that a single-path verifier asks for: rules that take sbar in place of q are
lossless by the theorem for one path. pi follows the path by Bayes' rule from the joint laws computed here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verifiers.arrays import map_fields
from verifiers.parts.balanced_selection import BalancedPlan, balanced_plan
from verifiers.parts.multisets import multisets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-13


@dataclass(frozen=True)
class CountedSelection:
    """Balanced selection at a node for every number of drafts m = 1..K; B requests.

    ``plans``: fields [B * K, ...], the plan for m drafts in row b * K + m - 1. ``law`` [B, K, K, V]:
    ``law[b, m-1, n-1, x]`` is the probability that x is selected and n of the m drafts are x.
    """

    plans: BalancedPlan
    law: Floats

    def plan_for(self, count: Ints) -> BalancedPlan:
        """Return the plans [B, ...] of the realised counts int [B]."""
        rows = np.arange(len(count)) * self.law.shape[1] + count - 1
        return map_fields(lambda values: values[rows], self.plans)

    def given(self, posterior: Floats) -> Floats:
        """Return the joint law [B, K, V] of count and token under the law ``posterior`` [B, K] of m."""
        joint: Floats = np.einsum("bm,bmnx->bnx", posterior, self.law)
        return joint


def counted_selection(wanted: Floats, draft: Floats, num_paths: int) -> CountedSelection:
    """Balance ``num_paths`` or fewer drafts of row ``draft`` against ``wanted``, both [B, V].

    Works with one level a token, so at most `verifiers.parts.ratio_levels.MAX_LEVELS` tokens, and sums over
    the C(V+m-1, m) multisets of drafts.
    """
    batch, vocab = draft.shape
    counts = np.tile(np.arange(1, num_paths + 1), batch)
    plans = balanced_plan(
        np.repeat(wanted, num_paths, axis=0), np.repeat(draft, num_paths, axis=0), counts, TOLERANCE
    )
    law = np.zeros((batch, num_paths, num_paths, vocab))
    for m in range(1, num_paths + 1):
        level = plans.level[m - 1 :: num_paths]
        block = np.take_along_axis(plans.block[m - 1 :: num_paths], level, axis=1)
        pull = np.take_along_axis(plans.attraction[m - 1 :: num_paths], level, axis=1)
        for tokens, orders in multisets(vocab, m):
            drafts = list(tokens)
            chance = orders * draft[:, drafts].prod(axis=1)
            wins = block[:, drafts] == block[:, drafts].min(axis=1, keepdims=True)
            weight = np.where(wins, pull[:, drafts], 0.0)
            chosen = chance[:, None] * weight / weight.sum(axis=1, keepdims=True)
            for place, token in enumerate(tokens):
                law[:, m - 1, tokens.count(token) - 1, token] += chosen[:, place]
    return CountedSelection(plans, law)


def posterior_after(joint: Floats, token: Ints) -> Floats:
    """Return the law of the count [B, K] at child ``token`` int [B]; zero where it is never selected."""
    here = joint[np.arange(len(token)), :, token]
    total = here.sum(axis=1, keepdims=True)
    posterior: Floats = here / np.where(total > 0, total, 1.0)
    return posterior
