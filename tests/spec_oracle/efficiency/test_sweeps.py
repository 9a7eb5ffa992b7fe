"""Sweeps over K and L: each ends at the instance itself, beneath its optimum."""

import pytest

from spec_oracle.efficiency import efficiencies, sweeps
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance

NAMES = ("token", "block", "greedy_multipath_block", "greedy_block", "top_draft")
INSTANCE = Instance.random(2, 2, num_paths=2, seed=2)


def test_both_sweeps_end_at_the_instance_itself():
    expected = efficiencies("", INSTANCE, NAMES)
    found = sweeps(INSTANCE, NAMES)
    assert [*found] == ["draft paths K  (L = 2)", "draft length L  (K = 2)"]
    for part in found.values():
        assert [sweep.verifier for sweep in part] == list(NAMES)
        assert [sweep.points[-1] for sweep in part] == expected
        assert {sweep.at for sweep in part} == {(1, 2)}


def test_verifiers_stay_beneath_their_optimum_and_longer_drafts_never_hurt_block():
    by_paths, by_length = sweeps(INSTANCE, NAMES).values()
    for sweep in (*by_paths, *by_length):
        pairs = zip(sweep.block_efficiency, sweep.optimum, strict=True)
        assert all(value <= best + 1e-12 for value, best in pairs)
    _, block, *_ = by_length
    assert block.block_efficiency == sorted(block.block_efficiency)


def test_an_instance_of_one_path_and_token_is_refused():
    with pytest.raises(InvalidInputError, match="nothing to sweep"):
        sweeps(Instance.random(2, 1), NAMES)
    assert [*sweeps(Instance.random(2, 2), ("token",))] == ["draft length L  (K = 1)"]
