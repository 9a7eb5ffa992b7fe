"""How the verifiers relate: special cases that coincide, and closed forms that they must attain."""

import numpy as np
import pytest
from hypothesis import given

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from tests.verifiers import balanced_reference as reference
from tests.verifiers.laws import law, require_same_law
from verifiers.rules.k_seq import smallest_rho

ONE_PATH = instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), max_tuples=100)
ONE_STEP = instances(vocab_sizes=(2, 4), draft_lengths=(1, 1), num_paths=(1, 3), max_tuples=100)
TIGHT = 1e-12


BLOCKS = ("balanced_multipath_block", "lookahead_multipath_block")


@pytest.mark.parametrize("rule", [*BLOCKS, "greedy_multipath_block", "traversal", "univer"])
@given(instance=ONE_PATH)
@examples(40)
def test_with_one_path_these_rules_are_block_verification(rule, instance):
    require_same_law(law(rule, instance, exact=True), law("block", instance, exact=True))


@pytest.mark.parametrize(
    "rule",
    ["naive", "recursive_rejection", "recursive_rejection_distinct", "k_seq", "canonical", "top_draft"],
)
@given(instance=ONE_PATH)
@examples(40)
def test_with_one_path_these_rules_are_token_verification(rule, instance):
    require_same_law(law(rule, instance), law("token", instance), tolerance=TIGHT)


@given(instance=ONE_PATH)
@examples(40)
def test_with_one_path_greedy_carry_is_greedy_block(instance):
    require_same_law(
        law("greedy_multipath_carry", instance, exact=True), law("greedy_block", instance, exact=True)
    )


@given(instance=ONE_PATH)
@examples(60)
def test_greedy_block_accepts_the_smaller_of_the_joint_masses(instance):
    lengths = range(instance.draft_length + 1)
    masses = [np.minimum(instance.target.joint(n), instance.draft.joint(n)).sum() for n in lengths]
    assert law("greedy_block", instance, exact=True).block_efficiency == sum(masses)


def rows(instance):
    exact = instance.exact
    return exact.target.levels[0][0], exact.draft.levels[0][0], exact.num_paths


def acceptance(name, instance, **options):
    return law(name, instance, **options).accepted_length_pmf[1]


@given(instance=ONE_STEP)
@examples(60)
def test_one_step_acceptance_has_closed_forms(instance):
    p, q, n = rows(instance)
    assert acceptance("nss", instance, exact=True) == (p * (1 - (1 - q) ** n)).sum()
    overlap = np.minimum(p, q).sum()
    residual = np.maximum(p - q, 0)
    lands = 0 if residual.sum() == 0 else (residual * (1 - (1 - q) ** (n - 1))).sum()
    # A rejected first draft lies where p < q, so it never hides a residual token from the other drafts.
    assert acceptance("naive", instance, exact=True) == overlap + lands
    left = p
    rejected = 1
    for _ in range(n):
        rejected *= np.maximum(left - q, 0).sum()
        if rejected == 0:
            break
        left = np.maximum(left - q, 0) / np.maximum(left - q, 0).sum()
    # A rejected draft has no residual left, so the last redraw never lands on one.
    assert acceptance("recursive_rejection", instance, exact=True) == 1 - rejected


@given(instance=ONE_STEP)
@examples(60)
def test_k_seq_accepts_rho_beta(instance):
    p, q, n = (np.asarray(row, dtype=float) for row in rows(instance))
    count = int(n)
    rho = smallest_rho(p[None], q[None], np.array([count]))[0]
    beta = np.minimum(p / rho, q).sum()
    drafted = 1 - (1 - beta) ** count
    # At the smallest rho a refused draft has no residual left; rho is rounded up by 2^-40 of itself.
    assert acceptance("k_seq", instance) == pytest.approx(drafted, abs=1e-10)


@pytest.mark.parametrize("rule", [*BLOCKS, "global_resolution"])
@given(instance=instances(vocab_sizes=(2, 6), draft_lengths=(1, 1), num_paths=(1, 4), max_tuples=256))
def test_one_step_optimal_rules_reach_the_optimal_acceptance(rule, instance):
    optimum = float(reference.optimal_acceptance(*rows(instance)))
    assert acceptance(rule, instance) == pytest.approx(optimum, abs=1e-9)


@given(instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=256))
def test_balanced_blocks_are_never_below_global_resolution(instance):
    block, walk = (
        law(rule, instance).block_efficiency for rule in ("balanced_multipath_block", "global_resolution")
    )
    assert block >= walk - 1e-9


def test_global_resolution_is_lossless_where_tokens_share_levels():
    instance = Instance.random(66, 1, num_paths=2, seed=3)
    assert emission_law(verifiers.get("global_resolution"), instance).total_variation <= TIGHT


@given(instance=ONE_STEP)
@examples(60)
def test_no_walk_accepts_more_than_the_subset_rule_allows(name, instance):
    p, q, n = rows(instance)
    if verifiers.drafting_of(verifiers.get(name)) is verifiers.Siblings.INDEPENDENT:
        best = reference.optimal_acceptance(p, q, n)
        assert acceptance(name, instance) <= float(best) + TIGHT
