"""Balanced selection: the law that a plan states is the law it has; the ideal one is the best there is."""

from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given

from spec_oracle.exact import enumerate_branches
from tests.strategies import at_night, by_day, instances
from tests.verifiers import balanced_reference as reference
from verifiers.parts.balanced_selection import balanced_plan, chances_at
from verifiers.parts.ratio_levels import (
    MAX_LEVELS,
    RatioLevels,
    make_levels,
    prefix_bounds,
    ratio_key,
    running_sum,
)

LEVELS = tuple(RatioLevels.__dataclass_fields__)
one_step = instances(vocab_sizes=(2, 6), draft_lengths=(1, 1), num_paths=(1, 4), max_tuples=300)


def plan_of(p, q, m):
    """Plan for single rows p, q [V]."""
    return balanced_plan(np.array([p]), np.array([q]), np.array([m]))


def shortfall(plan, p, q, m):
    """Return how far the acceptance of a plan for rows p, q [V] is from the largest that one step reaches."""
    p, q = p / p.sum(), q / q.sum()
    order = np.argsort(ratio_key(p, q))
    passed = (running_sum(row[order][None]) for row in (p, q))
    return prefix_bounds(*passed, np.array([m])).min() - np.minimum(p, plan.law[0]).sum()


def fields(plan):
    """Return all arrays of a plan."""
    return [plan.ranks, plan.law, *(getattr(plan.levels, name) for name in LEVELS)]


def root_rows(instance):
    """Return the rows p and q after the prompt."""
    return instance.target.rows(0)[0], instance.draft.rows(0)[0]


def zipf_pair(vocab, seed=0, noise=0.7):
    """Return two Zipf-like rows whose logits differ by noise."""
    rng = np.random.default_rng(seed)
    logits = -np.log(np.arange(1.0, vocab + 1)) + 0.3 * rng.standard_normal(vocab)
    rows = np.exp(np.array([logits, logits + noise * rng.standard_normal(vocab)]))
    return rows / rows.sum(axis=1, keepdims=True)


@given(one_step)
def test_the_law_is_the_lexicographic_base_and_attains_the_optimum(instance):
    p, q = root_rows(instance.exact)
    m = instance.num_paths
    plan = plan_of(p.astype(float), q.astype(float), m)
    optimum = float(reference.optimal_acceptance(p, q, m))
    base = np.array(reference.lexicographic_base(p, q, m), dtype=float)
    assert np.minimum(p.astype(float), plan.law[0]).sum() == pytest.approx(optimum, abs=1e-9)
    assert abs(plan.law[0] - base).max() <= 1e-9


@given(one_step)
def test_no_base_beats_the_optimum(instance):
    p, q = root_rows(instance.exact)
    best = reference.base_by_linear_program(p, q, instance.num_paths)
    assert best == pytest.approx(float(reference.optimal_acceptance(p, q, instance.num_paths)), abs=1e-7)


@given(one_step)
def test_the_stated_law_is_the_law_of_the_selection(instance):
    p, q = root_rows(instance.floats)
    plan = plan_of(p, q, instance.num_paths)
    law = reference.selection_law(q, token_ranks(plan, len(q)), instance.num_paths)
    assert abs(plan.law[0] - law).max() <= 1e-13


def token_ranks(plan, vocab):
    """Return the rank law of a draft of each token, [V, R]."""
    token = np.arange(vocab)
    return plan.levels.at(0 * token, token, plan.ranks)


def test_the_stated_law_holds_where_tokens_share_levels():
    p, q = zipf_pair(MAX_LEVELS + 6)
    plan = plan_of(p, q, 2)
    assert (plan.levels.share > 0).any()
    law = reference.selection_law(q, token_ranks(plan, len(q)), 2)
    assert abs(plan.law[0] - law).max() <= 1e-14


@pytest.mark.parametrize("m", [2, 8])
@pytest.mark.parametrize("vocab", [50, 16_001])
def test_the_law_that_rows_of_float32_state_is_that_of_the_selection_to_rounding(vocab, m):
    p, q = zipf_pair(vocab).astype(np.float32)
    plan = plan_of(p, q, m)
    assert shortfall(plan, p, q, m) <= 1e-6
    q = q.astype(float) / q.sum(dtype=float)
    ranks = token_ranks(plan, vocab)
    beyond = 1 - np.concatenate([[0], np.cumsum(q @ ranks)])
    worth = sum(beyond[:-1] ** i * beyond[1:] ** (m - 1 - i) for i in range(m))
    assert plan.law.dtype == np.float32
    assert abs(plan.law[0] - q * (ranks @ worth)).sum() <= 2e-7


@given(one_step)
def test_rationals_give_an_exact_law(instance):
    p, q = root_rows(instance.exact)
    m = min(instance.num_paths, 3)
    plan = plan_of(p, q, m)
    law = reference.selection_law([Fraction(mass) for mass in q], token_ranks(plan, len(q)), m)
    assert all(stated == found for stated, found in zip(plan.law[0], law, strict=True))
    assert sum(plan.law[0]) == 1
    assert 0 <= reference.optimal_acceptance(p, q, m) - np.minimum(p, plan.law[0]).sum() <= 1e-9


def test_rationals_attain_the_optimum_exactly_where_blocks_need_no_fit():
    p = np.array([Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)], dtype=object)
    q = np.array([Fraction(1, 20), Fraction(19, 40), Fraction(19, 40)], dtype=object)
    plan = plan_of(p, q, 2)
    assert plan.law[0].tolist() == reference.lexicographic_base(p, q, 2)
    assert np.minimum(p, plan.law[0]).sum() == reference.optimal_acceptance(p, q, 2)


@pytest.mark.parametrize("m", [1, 2, 8])
@pytest.mark.parametrize("vocab", [5, 1000])
def test_numpy_and_torch_agree(vocab, m):
    rows = zipf_pair(vocab)
    expected = plan_of(*rows, m)
    p, q = (torch.asarray(row)[None] for row in rows)
    plan = balanced_plan(p, q, torch.asarray([m]))
    assert abs(plan.law.numpy() - expected.law).sum() <= 1e-11


@pytest.mark.parametrize("vocab", [4, 300])
def test_a_request_does_not_depend_on_its_batch(vocab):
    rows = [zipf_pair(vocab, seed) for seed in range(6)]
    p, q = np.array([rows[i % 6][0] for i in range(12)]), np.array([rows[i % 6][1] for i in range(12)])
    count = np.array([1, 2, 3, 4, 2, 64, 1, 2, 5, 4, 2, 3])
    together = balanced_plan(p, q, count)
    for b in range(12):
        alone = balanced_plan(p[b : b + 1], q[b : b + 1], count[b : b + 1])
        for many, one in zip(fields(together), fields(alone), strict=True):
            assert np.array_equal(many[b], one[0])


@pytest.mark.parametrize("m", [2, 4, 8])
@pytest.mark.parametrize("noise", [0.05, 0.7, 2.0])
def test_full_vocabularies_attain_the_optimum(noise, m):
    p, q = zipf_pair(50257, seed=m, noise=noise)
    plan = plan_of(p, q, m)
    assert shortfall(plan, p, q, m) <= 1e-11
    assert plan.law.sum() == pytest.approx(1, abs=1e-12)


AWKWARD = {
    "denormal": lambda rng, v: 10.0 ** -rng.uniform(0, 320, v),
    "ties": lambda rng, v: rng.integers(1, 4, v).astype(float),
    "zeros": lambda rng, v: rng.integers(0, 2, v) * rng.random(v),
    "one-hot": lambda rng, v: np.eye(v)[rng.integers(v)],
    "nearly one-hot": lambda rng, v: np.eye(v)[rng.integers(v)] + 5e-324,
    "flat": lambda _, v: np.ones(v),
    "ordinary": lambda rng, v: rng.random(v),
}


def in_float32(row):
    return (row / row.sum()).astype(np.float32)


CASES = [*product(AWKWARD, [1, 2, 4, 64], [None, in_float32])]
BY_DAY = [
    *((kind, 4, None) for kind in AWKWARD),
    *((kind, 64, in_float32) for kind in ("denormal", "nearly one-hot")),
]


@pytest.mark.parametrize("sizes", [(1, 6, MAX_LEVELS + 1), *at_night(((2, MAX_LEVELS, 200),))])
@pytest.mark.parametrize(("kind", "m", "in_type"), by_day(CASES, BY_DAY))
def test_awkward_rows_never_break_a_plan(kind, m, in_type, sizes):
    in_type = in_type or np.asarray
    rng = np.random.default_rng([m, *kind.encode()])
    for other in AWKWARD.values():
        for vocab in sizes:
            p, q = AWKWARD[kind](rng, vocab) + 0.0, other(rng, vocab) + 0.0
            p[0] += p.sum() == 0
            q[0] += q.sum() == 0
            for draft in (q, p, 0.9 * p / p.sum() + 0.1 * q / q.sum()):
                plan = plan_of(in_type(p), in_type(draft), m)
                rounding = 1e-12 if plan.law.dtype == np.float64 else 1e-6
                for values in fields(plan):
                    assert np.isfinite(values).all()
                    assert (values >= -1e-15).all()
                assert plan.law.sum() == pytest.approx(1, abs=rounding)
                assert (plan.law[0][draft == 0] == 0).all()
                assert shortfall(plan, in_type(p), in_type(draft), m) <= 10 * rounding


def test_disjoint_supports_accept_nothing():
    plan = plan_of([0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.25, 0.75], 4)
    assert plan.law[0] == pytest.approx([0, 0, 0.25, 0.75])


def test_one_draft_is_selected_as_it_is():
    p, q = zipf_pair(500)
    assert abs(plan_of(p, q, 1).law[0] - q).max() <= 1e-16


def test_selection_ignores_absent_drafts_and_decides_nothing_for_one():
    p, q = zipf_pair(5)
    plan = plan_of(p, q, 1)
    tokens, present = np.array([[3, 1, 2]]), np.array([[False, True, False]])
    branches = list(
        enumerate_branches(
            lambda rows, decisions: decisions.categorical(
                chances_at(plan, rows, tokens[rows], present[rows])
            ),
            np.ones(1),
            max_rows=9,
        )
    )
    assert [branch.result.tolist() for branch in branches] == [[1]]


def test_running_sums_do_not_drift():
    mass = np.full((1, 150_000), 1 / 150_000)
    assert running_sum(mass)[0, -1] == pytest.approx(1, abs=5e-16)
    assert running_sum(mass).shape == (1, 150_001)


def test_levels_keep_the_draft_mass_and_name_every_heavy_token():
    p, q = zipf_pair(5000)
    levels = make_levels(p[None], q[None], partial(prefix_bounds, count=np.array([3])))
    assert levels.draft_mass.sum() == pytest.approx(1, abs=1e-14)
    assert levels.target_mass.sum() == pytest.approx(1, abs=1e-9)
    assert (levels.share[0][q > 0.05] == 0).all()
