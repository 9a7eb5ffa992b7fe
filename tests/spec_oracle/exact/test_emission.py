"""Emission laws: what they hold, and what they refuse."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import VerdictError, decoded_law, emission_law
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.draft_tree import conditional_laws
from spec_oracle.exact.drafting import ShapedTrees, TreeShape
from spec_oracle.exact.errors import TooManyBranchesError
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from verifiers import EMPTY, ROOT, Siblings, Verdict

WORKED = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)


def test_law_of_token_verification_on_the_worked_example():
    law = emission_law(verifiers.get("token"), WORKED, exact=True)
    assert law.probabilities[1,] == Fraction(1, 3)
    assert (0,) not in law.probabilities
    assert sum(law.probabilities.values()) == 1
    assert law.accepted_length_pmf == (Fraction(1, 3), Fraction(2, 9), Fraction(4, 9))
    assert law.block_efficiency == Fraction(19, 9)
    assert law.extended().shape == (2, 2, 2)
    assert law.extended().sum() == 1
    assert law.total_variation == 0
    assert all(isinstance(mass, Fraction) for mass in law.probabilities.values())


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 3)))
@examples(30)
def test_an_independent_recursion_agrees_on_token_verification(instance):
    """Branch by branch, in rationals: the specification against which the enumeration is held."""
    expected = {}

    def visit(prefix, mass):
        p, q = instance.target.conditional(prefix), instance.draft.conditional(prefix)
        if len(prefix) == instance.draft_length:
            for token, chance in enumerate(p):
                add((*prefix, token), mass * chance)
            return
        for token in range(instance.vocab_size):
            if q[token] > 0:
                accept = min(Fraction(1), p[token] / q[token])
                visit_if((*prefix, token), mass * q[token] * accept)
        refused = mass * (1 - np.minimum(p, q).sum())
        residual = np.maximum(p - q, 0)
        for token, left in enumerate(residual):
            if left > 0:
                add((*prefix, token), refused * left / residual.sum())

    def visit_if(prefix, mass):
        if mass > 0:
            visit(prefix, mass)

    def add(text, mass):
        if mass > 0:
            expected[text] = expected.get(text, 0) + mass

    visit((), Fraction(1))
    assert emission_law(verifiers.get("token"), instance, exact=True).probabilities == expected


@dataclass(frozen=True)
class Returns:
    """A verifier that returns what it is told to."""

    node: int = ROOT
    token: int = 0

    def verify(self, drafts, decisions):
        zero = drafts.tokens[:, 0] * 0
        return Verdict(zero + self.node, zero + self.token, drafts)


def test_a_lossy_verifier_shows_its_largest_gap():
    law = emission_law(Returns(token=0), WORKED, exact=True)
    assert law.total_variation == Fraction(2, 3)
    assert law.largest_gap.sequence == (0, 1, 1)
    assert law.largest_gap.expected == Fraction(4, 27)
    assert law.largest_gap.actual == Fraction(4, 9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Returns(token=2), "next_token: 2 at row 0, expected 0..1"),
        (Returns(token=0.5), "next_token: 0.5 at row 0, expected 0..1"),
        (Returns(node=2), "node: 2 at row 0, expected -1..1"),
        (Returns(node=EMPTY), "node: -2 at row 0, expected -1..1"),
        (Returns(token=-1), "next_token: -1"),
    ],
)
def test_impossible_emissions_are_refused(wrong, message):
    with pytest.raises(VerdictError, match=message):
        emission_law(wrong, WORKED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array": "jax"}, "array: expected 'numpy' or 'torch'"),
        ({"exact": True, "array": "torch"}, "exact: rationals need"),
        ({"dtype": "int8"}, "dtype: numpy has"),
        ({"array": "torch", "dtype": "int8"}, "dtype: torch has"),
    ],
)
def test_arithmetics_that_do_not_exist_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        emission_law(verifiers.get("token"), WORKED, **options)


def test_text_of_a_lossy_verifier_differs_over_calls():
    text = decoded_law(Returns(token=0), WORKED, 3, exact=True)
    assert text.law[0] == 1
    assert text.total_variation == Fraction(26, 27)
    assert text.largest_gap.sequence == (0, 0, 0)


def test_a_stop_token_ends_the_text_in_both_laws():
    text = decoded_law(verifiers.get("block"), WORKED, 3, exact=True, stop_token=1)
    assert text.expected.tolist() == text.law.tolist()
    assert text.expected[7] == Fraction(2, 3)


@pytest.mark.parametrize("rule", [verifiers.get("greedy_block"), Returns(token=1)])
def test_text_up_to_a_stop_token_is_a_part_of_the_text(rule):
    """No rule knows of stop tokens: the whole text decides what is left of it."""
    whole = decoded_law(rule, WORKED, 4, exact=True)
    stopped = decoded_law(rule, WORKED, 4, exact=True, stop_token=0)
    cut = np.full_like(whole.law, Fraction(0))
    for number, text in enumerate(product(range(2), repeat=4)):
        kept = (*text[: text.index(0)], 0, 0, 0, 0)[:4] if 0 in text else text
        cut[np.ravel_multi_index(kept, (2,) * 4)] += whole.law[number]
    assert cut.tolist() == stopped.law.tolist()


def test_texts_that_share_their_last_tokens_share_a_call():
    """Models of order 2: after two tokens or more, here always the same two, there is one call."""
    batches = []

    class Counted(Returns):
        def verify(self, drafts, decisions):
            batches.append(drafts.batch)
            return super().verify(drafts, decisions)

    assert decoded_law(Counted(token=1), WORKED, 5).law[-1] == pytest.approx(1, abs=1e-12)
    assert batches == [4, 4, 4]  # after no token, one, and two; four drafts of two tokens


def test_text_after_draft_trees_is_the_targets():
    trees = ShapedTrees(TreeShape.fan_out(2, 1), Siblings.DISTINCT)
    text = decoded_law(verifiers.get("traversal"), WORKED, 4, exact=True, drafting=trees)
    assert text.total_variation == 0
    top = ShapedTrees(TreeShape.fan_out(2, 1), Siblings.TOP)
    lossy = decoded_law(verifiers.get("traversal"), WORKED, 4, exact=True, drafting=top)
    assert lossy.total_variation > 0


@pytest.mark.parametrize("law_of", [emission_law, lambda *given, **how: decoded_law(*given, 3, **how)])
def test_no_outcome_is_run_after_the_end(law_of):
    with pytest.raises(TooManyBranchesError, match="the time for this distribution is over"):
        law_of(
            verifiers.get("token"), WORKED, end=0.0, **({"merged": False} if law_of is emission_law else {})
        )


def test_unknown_sizes_are_refused():
    with pytest.raises(InvalidInputError, match="num_tokens"):
        decoded_law(verifiers.get("block"), WORKED, 0)
    with pytest.raises(InvalidInputError, match="stop_token"):
        decoded_law(verifiers.get("block"), WORKED, 2, stop_token=5)


def test_trees_deeper_than_the_instance_are_refused():
    with pytest.raises(InvalidInputError, match="shape: 3 tokens deep, the instance has draft_length 2"):
        emission_law(Returns(), WORKED, drafting=ShapedTrees(TreeShape.paths(1, 3)))


def test_objects_that_are_no_verifiers_are_refused():
    with pytest.raises(InvalidInputError, match="verifier: expected an object with a method verify"):
        emission_law("block", WORKED)


@pytest.mark.parametrize("rule", ["traversal", "recursive_rejection_distinct", "eagle"])
def test_laws_after_each_tree_add_up_to_the_law_of_a_call(rule):
    """A walk looks at its tokens, a climb does not: with its last decision open, or represented by few."""
    toy = Instance.random(12, 2, seed=3).floats
    drafting = ShapedTrees(TreeShape((ROOT, ROOT)), Siblings.DISTINCT)
    table = DraftTable(toy, drafting, NUMPY)
    drafts = table.drafts(np.arange(len(table.law.probability)))
    found = [np.zeros((toy.vocab_size,) * length) for length in (1, 2, 3)]
    for mass, law in zip(table.law.probability, conditional_laws(verifiers.get(rule), drafts), strict=True):
        for prefix, masses in law.leaves.items():
            found[len(prefix)][prefix] += mass * masses
    expected = emission_law(verifiers.get(rule), toy, drafting=drafting).masses
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine.reshape(-1), theirs, rtol=0, atol=1e-12)
