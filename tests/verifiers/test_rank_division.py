"""Ranks: laws that average to the node's, a division that attains its bound, selection by the lowest rank."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_oracle.toy.strategies import rows
from tests.strategies import examples
from verifiers.parts.ranks import Ranks, race_laws, race_times, root_ranks, selection_chances
from verifiers.parts.ratio_levels import running_sum
from verifiers.rules.lookahead_multipath_block import PrefixNode, divide_further, divide_root


def random_node(rng, num_nodes, num_ranks):
    """Return nodes of any rank laws, of worths that fall with the rank, of demands up to what is served."""
    law = rng.dirichlet(np.full(num_ranks, 0.5), size=num_nodes)
    worth = -np.sort(-rng.exponential(size=(num_nodes, num_ranks)), axis=1)
    return PrefixNode(law, worth, rng.random(num_nodes) * (law * worth).sum(axis=1))


def random_rows(rng, num_nodes, vocab):
    """Return target and draft rows [N, V], some with zeros."""
    both = rng.dirichlet(np.full(vocab, 0.7), size=(2, num_nodes)) * (rng.random((2, num_nodes, vocab)) > 0.2)
    both[..., 0] += 1e-3
    return both / both.sum(axis=-1, keepdims=True)


def of_tokens(division):
    """Return the nodes' tokens as nodes, [N * V], given a `Division` of N nodes."""
    num_nodes, vocab = division.levels.level.shape
    parent, token = np.divmod(np.arange(num_nodes * vocab), vocab)
    return division.child(parent, token, np.ones(len(parent)))


@pytest.mark.parametrize(("vocab", "num_ranks"), [(2, 1), (4, 7), (9, 40), (300, 60), (3000, 100)])
def test_the_laws_of_the_tokens_average_to_the_nodes(vocab, num_ranks):
    rng = np.random.default_rng(vocab)
    p, q = random_rows(rng, 20, vocab)
    node = random_node(rng, 20, num_ranks)
    division = divide_further(p, q, node)
    law = of_tokens(division).law.reshape(20, vocab, num_ranks)
    assert law.min() >= -1e-15
    np.testing.assert_allclose(law[q > 0].sum(axis=-1), 1, rtol=0, atol=1e-9)
    np.testing.assert_allclose((q[:, :, None] * law).sum(axis=1), node.law, rtol=0, atol=1e-14)
    np.testing.assert_allclose((q * division.rate(np.arange(20))).sum(axis=1), 1, rtol=0, atol=1e-13)


@given(
    st.integers(2, 4).flatmap(lambda vocab: st.tuples(rows(vocab, 12), rows(vocab, 12), rows(vocab, 8))),
    st.integers(1, 3),
)
@examples(60)
def test_the_laws_of_the_tokens_average_to_the_nodes_in_rationals(given_rows, num_paths):
    p, q, r = (np.array([row], dtype=object) for row in given_rows)
    root = divide_root(p, q, num_paths, 4)
    children = of_tokens(root)
    assert ((q[0][:, None] * children.law).sum(axis=0) == root.node.law[0]).all()
    below = divide_further(
        np.repeat(p, len(children.demand), 0), np.repeat(r, len(children.demand), 0), children
    )
    law = of_tokens(below).law.reshape(len(children.demand), r.shape[1], -1)
    assert ((r[0][None, :, None] * law).sum(axis=1) == children.law).all()
    assert all(isinstance(chance, Fraction | int) for chance in law.reshape(-1))


def accepted(p, q, node):
    """Return Σ min(u p, q b) at every node, [N]."""
    rate = divide_further(p, q, node).rate(np.arange(len(p)))
    served = q * rate * (node.law * node.worth).sum(axis=1, keepdims=True)
    return np.minimum(node.demand[:, None] * p, served).sum(axis=1)


@pytest.mark.parametrize(("vocab", "num_ranks"), [(2, 1), (2, 5), (3, 9), (5, 30), (6, 64)])
def test_verification_accepts_the_most_that_any_division_allows(vocab, num_ranks):
    rng = np.random.default_rng(num_ranks)
    p, q = random_rows(rng, 50, vocab)
    node = random_node(rng, 50, num_ranks)
    found = accepted(p, q, node)
    sets = [list(chosen) for size in range(vocab + 1) for chosen in combinations(range(vocab), size)]
    bounds = [
        node.ranks.reached(np.minimum(q[:, chosen].sum(axis=1, keepdims=True), 1))[:, 0]
        + node.demand * (1 - p[:, chosen].sum(axis=1))
        for chosen in sets
    ]
    np.testing.assert_allclose(found, np.min(bounds, axis=0), rtol=0, atol=1e-12)


def test_verification_accepts_the_most_at_a_full_vocabulary():
    rng = np.random.default_rng(5)
    target = -1.1 * np.log(np.arange(2.0, 20_002)) + 0.6 * rng.standard_normal((4, 20_000))
    both = np.exp([target, target + 0.7 * rng.standard_normal((4, 20_000))])
    p, q = both / both.sum(axis=-1, keepdims=True)
    root = divide_root(p[:1], q[:1], 4, 64)
    node = root.child(np.zeros(3, dtype=int), np.array([0, 5, 900]), (p / q)[0, [0, 5, 900]])
    order = np.argsort(q[1:] / p[1:], axis=-1)
    passed, drawn = (running_sum(np.take_along_axis(rows, order, axis=-1)) for rows in (p[1:], q[1:]))
    bound = node.ranks.reached(drawn) + node.demand[:, None] * (1 - passed)
    np.testing.assert_allclose(accepted(p[1:], q[1:], node), bound.min(axis=1), rtol=0, atol=1e-9)


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1))
@examples(100)
def test_races_have_the_wanted_means(num_levels, num_ranks, seed):
    rng = np.random.default_rng(seed)
    node = random_node(rng, 3, num_ranks)
    mass = rng.dirichlet(np.full(num_levels, 0.5), size=3) * 0.999 + 0.001 / num_levels
    # What is served in order, spread less: feasible, and as the levels come it falls.
    ordered = np.diff(node.ranks.reached(running_sum(mass)), axis=1) / mass
    even = (ordered * mass).sum(axis=1, keepdims=True)
    wanted = ordered + rng.random((3, 1)) * (even - ordered)
    block = np.zeros((3, num_levels), dtype=int)
    time = race_times(wanted, mass, block, node.ranks)
    law = race_laws(time, mass, block, node.ranks)
    np.testing.assert_allclose((law * node.worth[:, None, :]).sum(axis=-1), wanted, rtol=1e-8, atol=1e-9)


def test_ranks_of_the_root_are_those_of_equal_parts_and_ends_of_levels():
    ranks = root_ranks(np.array([[0.3, 0.7]]), np.array([3]), 2)
    np.testing.assert_allclose(ranks.edges, [[0, 0.3, 0.5, 1]])
    # The lowest of three paths has a rank among the first of chance t with 1 - (1 - t)^3.
    np.testing.assert_allclose(ranks.totals, [[0, 1 - 0.7**3, 1 - 0.5**3, 1]])
    np.testing.assert_allclose(ranks.reached(np.array([[0.4]])), [[(1 - 0.7**3 + 1 - 0.5**3) / 2]])


@pytest.mark.parametrize("num_paths", [1, 2, 3, 4])
def test_the_lowest_rank_is_selected_and_of_several_any(num_paths):
    rng = np.random.default_rng(num_paths)
    laws = rng.dirichlet(np.ones(4), size=(5, num_paths))
    expected = np.zeros((5, num_paths))
    for ranks in product(range(4), repeat=num_paths):
        chance = np.prod([laws[:, path, rank] for path, rank in enumerate(ranks)], axis=0)
        lowest = np.array(ranks) == min(ranks)
        expected += chance[:, None] * (lowest / lowest.sum())
    np.testing.assert_allclose(selection_chances(laws), expected, rtol=0, atol=1e-15)


def test_the_worth_of_a_rank_is_that_of_a_path_that_has_it():
    ranks = root_ranks(np.array([[0.25, 0.75]]), np.array([3]), 4)
    tails = np.concatenate([1 - running_sum(ranks.law)[0], [0]])[: ranks.law.shape[1] + 1]
    chance = tails[:-1] ** 3 - tails[1:] ** 3
    np.testing.assert_allclose((ranks.law * ranks.worth)[0], chance, rtol=0, atol=1e-15)
    assert isinstance(ranks, Ranks)
