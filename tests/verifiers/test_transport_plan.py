"""Transport plans: exact in rationals, accurate in floats, refused with a set that proves infeasibility."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from verifiers.parts.transport_plan import InfeasibleTransportError, transport_plan

NODES = 6
trees_strategy = st.lists(
    st.tuples(st.sets(st.integers(0, NODES - 1), min_size=1), st.integers(0, 5)), min_size=1, max_size=8
)


def arrays(trees):
    return [np.array(sorted(tree)) for tree in trees]


def fractions(values):
    return np.array([Fraction(value) for value in values], dtype=object)


def received(plan, trees, nodes=NODES):
    total = np.full(nodes, plan[0][0] * 0)
    for tree, masses in zip(trees, plan, strict=True):
        np.add.at(total, tree, masses)
    return total


@examples(200)
@given(trees_strategy, st.data())
def test_every_feasible_demand_is_met_exactly(weighted, data):
    trees = arrays(tree for tree, _ in weighted)
    wanted = [Fraction(0)] * NODES
    for tree, (_, weight) in zip(trees, weighted, strict=True):
        for _ in range(weight):
            wanted[data.draw(st.sampled_from(tree.tolist()))] += Fraction(1, 7)
    weights = fractions(Fraction(weight, 7) for _, weight in weighted)
    plan = transport_plan(fractions(wanted), trees, weights)
    assert (received(plan, trees) == wanted).all()
    for masses, weight in zip(plan, weights, strict=True):
        assert masses.sum() == weight
        assert (masses >= 0).all()


def attempt(wanted, trees, weights):
    try:
        return transport_plan(wanted, trees, weights), ()
    except InfeasibleTransportError as error:
        return [], error.overfull


@examples(200)
@given(trees_strategy, st.lists(st.integers(0, 6), min_size=NODES, max_size=NODES))
def test_refusals_name_an_overfull_set_and_agree_with_networkx(weighted, demands):
    trees, weights = arrays(tree for tree, _ in weighted), [weight for _, weight in weighted]
    graph = nx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    for node, demand in enumerate(demands):
        graph.add_edge(("node", node), "sink", capacity=demand)
    for t, tree in enumerate(trees):
        graph.add_edge("source", t, capacity=weights[t])
        graph.add_edges_from((t, ("node", int(node))) for node in tree)
    served = nx.maximum_flow_value(graph, "source", "sink")
    feasible = served == sum(demands) == sum(weights)
    plan, overfull = attempt(fractions(demands), trees, fractions(weights))
    assert bool(overfull) == (served < sum(demands))
    for nodes in overfull:
        touching = sum(w for tree, w in zip(trees, weights, strict=True) if nodes & set(tree.tolist()))
        assert sum(demands[node] for node in nodes) > touching
    assert bool(plan) == feasible
    if feasible:
        assert (received(plan, trees) == demands).all()


def random_problem(seed, nodes=60, count=3000, size=8):
    """Return a demand that is feasible up to rounding, over masses of very different sizes."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.05, size=count)
    weights /= weights.sum()
    trees = [rng.choice(nodes, size=size, replace=False) for _ in range(count)]
    split = rng.dirichlet(np.full(size, 0.3), size=count)
    wanted = np.zeros(nodes)
    for tree, shares, weight in zip(trees, split, weights, strict=True):
        wanted[tree] += shares * weight
    return wanted, trees, weights


@pytest.mark.parametrize("seed", range(3))
def test_floats_keep_thirteen_digits(seed):
    wanted, trees, weights = random_problem(seed)
    plan = transport_plan(wanted, trees, weights)
    np.testing.assert_allclose([masses.sum() for masses in plan], weights, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(received(plan, trees, len(wanted)), wanted, rtol=1e-13)
    assert all((masses >= 0).all() for masses in plan)


def test_rounding_is_forgiven_but_no_more():
    trees = arrays([{0, 1}, {1, 2}])
    weights = np.array([0.5, 0.5])
    plan = transport_plan(np.array([0.5, 0.5 - 1e-15, -1e-17]), trees, weights)
    np.testing.assert_allclose(plan[0], [0.5, 0])
    np.testing.assert_allclose(plan[1], [0.5, 0])
    with pytest.raises(InfeasibleTransportError, match=r"nodes \[0\] want 0.5000000001, 1e-10 more"):
        transport_plan(np.array([0.5 + 1e-10, 0.5 - 1e-10, 0.0]), trees, weights)
    with pytest.raises(InfeasibleTransportError, match=r"sum to 0\.1 less"):
        transport_plan(np.array([0.4, 0.5, 0.0]), trees, weights)


def test_a_tree_that_rounding_left_alone_stops_where_mass_is_wanted():
    plan = transport_plan(np.array([0.0, 1.0]), arrays([{1}, {0, 1}]), np.array([1.0, 1e-17]))
    assert plan[1].tolist() == [0.0, 1e-17]


def test_rationals_forgive_nothing():
    tiny = Fraction(1, 10**30)
    with pytest.raises(InfeasibleTransportError, match="more than the trees"):
        transport_plan(fractions([1 + tiny, 0]), arrays([{0, 1}]), fractions([1]))
    with pytest.raises(InfeasibleTransportError, match="less than tree_probs"):
        transport_plan(fractions([1 - tiny, 0]), arrays([{0, 1}]), fractions([1]))


def test_mass_that_is_needed_elsewhere_moves_along_a_chain():
    trees = [np.array([node, node + 1]) for node in range(50)]
    wanted = np.full(51, Fraction(1))
    wanted[0] = Fraction(0)
    plan = transport_plan(wanted, trees, fractions([1] * 50))
    assert all((masses == [0, 1]).all() for masses in plan)
