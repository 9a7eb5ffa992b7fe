"""The optimum of rules that see only rows along their drafts: one instance, known rules, any multipliers."""

import numpy as np
import pytest

import verifiers
from lab.claims.families import rearranged
from lab.claims.local_optimum import local_bound, local_optimum
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.exact.arithmetic import to_internal
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.toy import Instance

FAMILY = rearranged(Instance.random(2, 2, num_paths=2, seed=1, agreement=0.3).rounded(12), 2)
COSTLY = rearranged(Instance.random(3, 2, num_paths=2, seed=2).rounded(12), 3)


def mean_optimum(family):
    return sum(multi_path_optimum(instance, exact=True).value for instance in family) / len(family)


def proven(optimum):
    return optimum.value + float(optimum.gap)


@pytest.mark.parametrize("shape", [(2, 2, 3), (3, 2, 2), (2, 3, 2), (3, 1, 2)], ids=str)
def test_one_instance_attains_its_global_optimum(shape):
    vocab, length, paths = shape
    instance = Instance.random(vocab, length, num_paths=paths, seed=3, agreement=0.2)
    assert proven(local_optimum([instance])) == pytest.approx(multi_path_optimum(instance).value, abs=1e-9)


@pytest.mark.parametrize("rule", ["balanced_multipath_block", "greedy_multipath_block", "traversal", "k_seq"])
def test_rules_that_are_served_see_no_more(rule):
    found = [emission_law(verifiers.get(rule), member).block_efficiency for member in FAMILY]
    assert np.mean(found) <= proven(local_optimum(FAMILY)) + 1e-12


def test_unseen_context_can_cost_efficiency():
    assert proven(local_optimum(FAMILY)) == pytest.approx(mean_optimum(FAMILY), abs=1e-9)
    assert 1e-4 < mean_optimum(COSTLY) - proven(local_optimum(COSTLY)) < 1e-3


def test_any_multipliers_prove_a_bound():
    best = local_optimum(FAMILY)
    rng = np.random.default_rng(0)
    for _ in range(20):
        wild = best.certificate + to_internal(rng.normal(size=best.certificate.shape) / 10)
        assert local_bound(FAMILY, wild) > best.value + 1e-6


def test_instances_share_a_shape():
    with pytest.raises(
        InvalidInputError, match=r"^instances: expected one shape .*\[\(2, 2, 2\), \(3, 2, 2\)\]"
    ):
        local_optimum([FAMILY[0], COSTLY[0]])
    with pytest.raises(InvalidInputError, match="^instances"):
        local_optimum([])
