"""The path that `lookahead_multipath_block` selects: its law, and the tokens that verification makes of it.

Every node is divided once, whatever the number of paths: toys are in reach whose draft tuples are too many.
"""

import numpy as np

from lab.studies.count_law import Floats
from spec_oracle.toy import Instance
from verifiers.arrays import divide
from verifiers.rules.lookahead_multipath_block import (
    LookaheadMultipathBlockVerifier,
    divide_further,
    divide_root,
)

STEPS = LookaheadMultipathBlockVerifier.steps


def selected_path(instance: Instance, steps: int = STEPS) -> tuple[Floats, float]:
    """Return the law of the selected path, [V^L], and the block efficiency, in tokens per call."""
    toy = instance.floats
    p, q = toy.target.rows(0), toy.draft.rows(0)
    division = divide_root(p, q, toy.num_paths, steps)
    mass, tokens = np.ones(1), 1.0
    for depth in range(1, toy.draft_length + 1):
        parent, token = np.divmod(np.arange(p.size), toy.vocab_size)
        node = division.child(parent, token, divide(p, q, otherwise=0).reshape(-1))
        mass = mass[parent] * q.reshape(-1)
        # Block verification passes a node with probability C = q u.
        tokens += float(mass @ node.demand)
        if depth < toy.draft_length:
            p, q = toy.target.rows(depth), toy.draft.rows(depth)
            division = divide_further(p, q, node)
    law: Floats = mass * (node.law * node.worth).sum(axis=1)
    return law, tokens
