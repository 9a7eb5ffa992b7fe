"""The subset rule, against all subsets and against a maximum flow in rationals."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_oracle.errors import InvalidInputError
from spec_oracle.optimum import optimal_acceptance
from tests.strategies import examples


def rows(vocab):
    weights = st.lists(st.integers(0, 6), min_size=vocab, max_size=vocab).filter(any)
    return weights.map(lambda row: [Fraction(weight, sum(row)) for weight in row])


cases = st.integers(1, 4).flatmap(lambda vocab: st.tuples(rows(vocab), rows(vocab), st.integers(1, 3)))


def served_by_flow(target, draft, num_drafts):
    """Return the largest mass that draft sets can hand to the target's tokens, by max-flow."""
    graph = nx.DiGraph()
    for token, mass in enumerate(target):
        graph.add_edge(("token", token), "sink", capacity=mass)
    sets = Counter()
    for drafts in product(range(len(draft)), repeat=num_drafts):
        sets[frozenset(drafts)] += prod(draft[token] for token in drafts)
    for tokens, mass in sets.items():
        graph.add_edge("source", tokens, capacity=mass)
        for token in tokens:
            graph.add_edge(tokens, ("token", token))
    return nx.maximum_flow_value(graph, "source", "sink")


@examples(150)
@given(cases)
def test_subset_rule_equals_max_flow_exactly(case):
    assert optimal_acceptance(*case, exact=True).value == served_by_flow(*case)


@examples(150)
@given(cases)
def test_no_subset_proves_less_and_the_certificate_proves_the_value(case):
    target, draft, num_drafts = case

    def bound(subset):
        return 1 - sum(target[x] for x in subset) + 1 - (1 - sum(draft[x] for x in subset)) ** num_drafts

    optimum = optimal_acceptance(*case, exact=True)
    tokens = range(len(target))
    assert optimum.value == min(
        bound(s) for size in range(len(target) + 1) for s in combinations(tokens, size)
    )
    assert bound(optimum.certificate.subset) == optimum.value
    assert optimal_acceptance(*case).value == pytest.approx(float(optimum.value), abs=1e-14)


def test_large_vocabularies_in_floats():
    rng = np.random.default_rng(0)
    target, draft = rng.dirichlet(np.full(10_000, 0.1), size=2)
    acceptances = [optimal_acceptance(target, draft, n).value for n in (1, 2, 8)]
    assert acceptances[0] == pytest.approx(np.minimum(target, draft).sum(), abs=1e-12)
    assert acceptances == sorted(acceptances)


@pytest.mark.parametrize(
    ("target", "draft", "num_drafts", "message"),
    [
        ([1.0], [1.0], 0, "num_drafts"),
        ([0.5, 0.5], [1.0], 1, "draft_row: has 1"),
        ([0.5, 0.6], [0.5, 0.5], 1, "target_row"),
        ([0.5, 0.5], [1.5, -0.5], 1, "draft_row.*token 1"),
    ],
)
def test_bad_input_is_named(target, draft, num_drafts, message):
    with pytest.raises(InvalidInputError, match=message):
        optimal_acceptance(target, draft, num_drafts)
