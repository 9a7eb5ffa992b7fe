"""What a law of drafting allows: independent paths by their law alone, other laws tree by tree.

Both classes answer the same questions: `mass_touching`, `expected_highest` and, in rationals, `serve`.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import InvalidInputError
from spec_oracle.optimum.concave_program import concave_optimum
from spec_oracle.optimum.flow_program import FloatOptimum, flow_optimum
from spec_oracle.optimum.paths import IndependentPaths
from spec_oracle.optimum.trees import DraftTrees, PrefixTree, draft_trees
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of
from verifiers import Drafting

Drafts: TypeAlias = IndependentPaths | DraftTrees

MAX_CONTEXTS = 5_000
"""Contexts of up to L tokens that a program may have."""

AGREEMENT = 1e-10
"""How near budgets that can be served come to the bound, in tokens, unless less is asked for."""


def drafts_of(instance: Instance, drafting: Drafting) -> Drafts:
    """Return what ``drafting`` allows on ``instance``; raises `InvalidInputError` for one too large."""
    require_instance_of(drafting, "drafting", Drafting)
    prefixes = PrefixTree(instance.vocab_size, instance.draft_length)
    if prefixes.starts[-1] > MAX_CONTEXTS:
        raise InvalidInputError(f"instance: {prefixes.starts[-1]} contexts, more than {MAX_CONTEXTS}")
    if drafting is Drafting.INDEPENDENT:
        return IndependentPaths(prefixes, prefixes.joint(instance.draft), instance.num_paths)
    return draft_trees(instance, drafting)


def float_optimum(
    target: NDArray[Any], ceiling: NDArray[np.int64], drafts: Drafts, gap: float = AGREEMENT
) -> FloatOptimum | None:
    """Return the optimum that HiGHS finds, None if it finds none.

    Arguments as in `cutting_planes.best_budgets`, rationals or floats. Over independent paths the search ends
    where the optimum is known to ``gap`` tokens.
    """
    mass = target.astype(np.float64)
    if isinstance(drafts, IndependentPaths):
        return concave_optimum(mass, ceiling, drafts.floats, gap)
    return flow_optimum(mass, ceiling, drafts)
