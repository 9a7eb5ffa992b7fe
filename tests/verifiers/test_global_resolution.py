"""Global resolution accepts as often as any one-step rule can."""

import pytest
from hypothesis import given

from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import instances
from tests.verifiers import balanced_reference as reference
from verifiers.rules.global_resolution import GLOBAL_RESOLUTION


@given(instances(vocab_sizes=(2, 6), draft_lengths=(1, 1), num_paths=(1, 4), max_tuples=256))
def test_one_step_attains_the_optimum(instance):
    law = emission_law(GLOBAL_RESOLUTION, instance, merged=False)
    p, q = instance.exact.target.rows(0)[0], instance.exact.draft.rows(0)[0]
    optimum = float(reference.optimal_acceptance(p, q, instance.num_paths))
    assert law.block_efficiency == pytest.approx(1 + optimum, abs=1e-9)


def test_lossless_where_tokens_share_levels():
    instance = Instance.random(66, 1, num_paths=2, seed=3)
    assert emission_law(GLOBAL_RESOLUTION, instance).total_variation <= 1e-12
