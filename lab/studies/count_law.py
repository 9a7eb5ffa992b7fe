"""The joint law of what balanced selection selects and of how many drafts agree with it; toys only.

At a node with m drafts the selected token x is shared by n of them. `balanced_multipath_block` verifies the
path with rows given the realised m. The path alone, without its counts, has a law too,

    sbar(x | v) = sum_m pi(m | v) s^(m)(x | v),     pi = law of the count at v, given that the path passes v,

and one path of known law is all that a single-path verifier asks for: rules that take sbar in place of q are
lossless by the theorem for one path. pi follows the path by Bayes' rule from the joint laws computed here.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from verifiers.arrays import distinct_requests, map_fields
from verifiers.parts.balanced_selection import BalancedPlan, balanced_plan
from verifiers.parts.ranks import selection_chances

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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

    Sums over all V^m drafts. Equal rows, of which an enumeration has many, are done once.
    """
    chosen, copy = distinct_requests(wanted, draft, np.zeros(len(draft)))
    if len(chosen) < len(draft):
        found = counted_selection(wanted[chosen], draft[chosen], num_paths)
        rows = (copy[:, None] * num_paths + np.arange(num_paths)).reshape(-1)
        return CountedSelection(map_fields(lambda values: values[rows], found.plans), found.law[copy])
    batch, vocab = draft.shape
    counts = np.tile(np.arange(1, num_paths + 1), batch)
    plans = balanced_plan(np.repeat(wanted, num_paths, axis=0), np.repeat(draft, num_paths, axis=0), counts)
    law = np.zeros((batch, num_paths, num_paths, vocab))
    for m in range(1, num_paths + 1):
        rows = np.arange(m - 1, batch * num_paths, num_paths)
        ranks = [plans.levels.at(rows, 0 * rows + token, plans.ranks) for token in range(vocab)]
        for tokens in product(range(vocab), repeat=m):
            chance = draft[:, list(tokens)].prod(axis=1)
            wins = selection_chances(np.stack([ranks[token] for token in tokens], axis=1))
            for place, token in enumerate(tokens):
                law[:, m - 1, tokens.count(token) - 1, token] += chance * wins[:, place]
    return CountedSelection(plans, law)


def posterior_after(joint: Floats, token: Ints) -> Floats:
    """Return the law of the count [B, K] at child ``token`` int [B]; zero where it is never selected."""
    here = joint[np.arange(len(token)), :, token]
    total = here.sum(axis=1, keepdims=True)
    posterior: Floats = here / np.where(total > 0, total, 1.0)
    return posterior
