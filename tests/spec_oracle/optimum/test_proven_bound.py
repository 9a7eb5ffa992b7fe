"""The float bound against the optimum in rationals; any potentials prove a bound."""

import numpy as np
import pytest

from spec_oracle.optimum import ROUNDING, block_transport_optimum, multi_path_optimum, proven_bound
from spec_oracle.optimum.cutting_planes import drafts_of
from spec_oracle.optimum.optima import potential_bound
from spec_oracle.toy import Instance

INSTANCES = [
    Instance.random(3, 2, num_paths=2, seed=1),
    Instance.random(2, 3, num_paths=2, seed=2, agreement=0.5),
    Instance.random(3, 1, num_paths=3, seed=3, concentration=0.2),
]


@pytest.mark.parametrize("instance", INSTANCES)
def test_the_bound_is_the_rational_optimum(instance, drafting):
    for exact, carry_over in ((multi_path_optimum, False), (block_transport_optimum, True)):
        value = exact(instance, drafting=drafting).value
        found = proven_bound(instance, drafting=drafting, carry_over=carry_over)
        assert value - ROUNDING < found.bound < value + 1e-6
        assert abs(found.gap) < 1e-6


@pytest.mark.parametrize("carry_over", [False, True])
def test_any_potentials_prove_a_bound(carry_over, drafting):
    instance = INSTANCES[0]
    optimum = proven_bound(instance, drafting=drafting, carry_over=carry_over).attained
    drafts = drafts_of(instance.floats, drafting)
    prefixes = drafts.prefixes
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    target = prefixes.joint(instance.target).astype(float)
    rng = np.random.default_rng(0)
    for _ in range(100):
        wild = 2 * rng.random(len(target))
        assert potential_bound(target, ceiling, drafts, wild) > optimum
