"""The optimum of instances too large for rationals: solved in floats, bounded by weak duality.

HiGHS proposes potentials mu. Whatever they are, they prove a bound, which is recomputed here from the
instance and mu alone, as `spec_oracle.optimum.check` explains; so the solver's tolerances can make the bound
loose, never wrong. Rounding in float64 is all that separates it from a proof: below `ROUNDING` tokens at the
sizes that fit here.
"""

from dataclasses import dataclass

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.errors import SpecOracleError
from spec_oracle.optimum.cutting_planes import AGREEMENT, Drafted, drafts_of, float_optimum
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of
from verifiers import Siblings

ROUNDING = 1e-10


@dataclass(frozen=True)
class ProvenBound:
    """``bound``: tokens per call that no lossless verifier exceeds; ``attained``: what the solver reaches."""

    bound: float
    attained: float

    @property
    def gap(self) -> float:
        """How far the bound may lie above the optimum, in tokens; the solver's tolerances are part of it."""
        return self.bound - self.attained


def proven_bound(
    instance: Instance,
    *,
    drafting: Siblings = Siblings.INDEPENDENT,
    carry_over: bool = False,
    gap: float = AGREEMENT,
) -> ProvenBound:
    """Bound the block efficiency of any lossless verifier of ``instance``, in tokens, in float64.

    The same two programs as `multi_path_optimum` and, with ``carry_over``, `block_transport_optimum`. Over
    independent paths the search ends where bound and attained are within ``gap`` tokens. Raises
    `SpecOracleError` where HiGHS finds no optimum and `InvalidInputError` past the limit on contexts or draft
    tuples.
    """
    numbers = require_instance_of(instance, "instance", Instance).floats
    drafts = drafts_of(numbers, drafting)
    prefixes = drafts.prefixes
    target = prefixes.joint(numbers.target).astype(np.float64)
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    best = float_optimum(target, ceiling, drafts, gap)
    if best is None:
        raise SpecOracleError("optimum: HiGHS found no solution of a program that has one")
    bound = potential_bound(target, ceiling, drafts, best.potentials)
    return ProvenBound(bound, float(target @ best.budgets))


def potential_bound(target: Floats, ceiling: Integers, drafts: Drafted, potentials: Floats) -> float:
    """Return the bound that ``potentials`` [N] prove (docs/theory.md, "Budgets and the optimum").

    Arguments as in `cutting_planes.best_budgets`.
    """
    gain = target * (1 - potentials + potentials[drafts.prefixes.parent])
    gain[0] -= target[0] * potentials[0]  # the root has no parent term
    for node in range(len(gain) - 1, 0, -1):
        gain[ceiling[node]] += max(gain[node], 0.0)
    return drafts.expected_highest(potentials) + float(gain[0])
