"""What bounds the tokens per call of any lossless rule, by how the tree is drafted."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from lab.design.models import Models
from spec_oracle.arrays import Numbers
from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.drafting import draft_paths, shaped_law
from spec_oracle.optimum import proven_bound
from spec_oracle.toy import Instance
from verifiers import Siblings

GAP = 1e-6
"""How near a proven optimum over independent paths comes to what is attained, in tokens."""


@dataclass(frozen=True)
class Bound:
    """``tokens`` per call that no lossless rule exceeds with these drafts.

    ``gap``: how far it may lie above what some rule attains, in tokens; None where that is not known.
    """

    tokens: float
    gap: float | None


def bound_for(instance: Instance, models: Models, shape: FanOuts, drafting: Siblings) -> Bound:
    """Return the optimum where it is known, else `passing_bound`; ``models`` are those of ``instance``.

    Known for K independent paths: by the concave program (`proven_bound`) where it has few enough contexts,
    for one path by `passing_bound`.
    """
    single = shape.num_paths == 1
    if drafting is Siblings.INDEPENDENT and not single and shape.num_paths is not None and not shape.delay:
        paths = replace(instance, num_paths=shape.num_paths, draft_length=shape.levels)
        with suppress(InvalidInputError):  # too many contexts
            best = proven_bound(paths, gap=GAP)
            return Bound(best.bound, best.gap)
    return Bound(float(passing_bound(models, shape, drafting)), 0.0 if single else None)


def passing_bound(models: Models, shape: FanOuts, drafting: Siblings) -> Any:
    """Return the sum of p(v) c(v), c(v) = min(c(parent), P(v is in the tree) / p(v)): a bound for any drafts.

    What goes on behind v was accepted, so v is in the tree: p(v) c(v) is at most the probability of that, and
    budgets fall along a path (docs/theory.md, "Budgets and the optimum"). It is the optimum for one path.
    """
    tokens, passed = models.one[0], models.one
    reached: dict[int, Any] = {1: models.one}
    for depth, fan_out in enumerate(shape.fan_outs):
        below: dict[int, Any] = defaultdict(int)
        for copies, mass in reached.items():
            here = np.asarray(models.reachable[depth] * mass > 0, dtype=bool)
            counts = drafted_counts(models.draft[depth][here], copies * fan_out, drafting)
            for count in range(1, counts.shape[2]):
                if (counts[:, :, count] > 0).any():
                    masses = models.target[depth] * 0
                    masses[here] = mass[here, None] * counts[:, :, count]
                    below[count] = below[count] + masses.reshape(-1)
        reached = dict(below)
        target = models.target[depth]
        passed = np.minimum((passed[:, None] * target).reshape(-1), sum(reached.values()))
        tokens = tokens + passed.sum()
    return tokens


def drafted_counts(rows: Numbers, drafts: int, drafting: Siblings) -> Numbers:
    """Return the probability [N, V, n+1] that n ``drafts`` from ``rows`` [N, V] hold a token 0..n times."""
    if drafting is Siblings.INDEPENDENT:
        powers = [
            comb(drafts, count) * rows**count * (1 - rows) ** (drafts - count) for count in range(drafts + 1)
        ]
        return np.stack(powers, axis=2)
    law = np.broadcast_to(rows[:, :, None] * 0, (*rows.shape, drafts + 1)).copy()
    for node in range(len(rows)):
        drawn = shaped_law([rows[node : node + 1]], draft_paths(drafts, 1, drafting))
        count = (drawn.tokens[:, :, None] == np.arange(rows.shape[1])).sum(axis=1)
        np.add.at(law[node], (np.arange(rows.shape[1])[None, :], count), drawn.probability[:, None])
    return law
