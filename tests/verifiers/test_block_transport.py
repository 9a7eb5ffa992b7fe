"""Block transport: the masses it aims for, its text over many calls, and what it needs."""

import pytest
from hypothesis import given

import verifiers
from spec_oracle.exact import decoded_law, emission_law
from spec_oracle.optimum import block_transport_optimum
from spec_oracle.toy import Instance
from tests.strategies import at_night, examples, instances
from verifiers import InvalidInputError
from verifiers.rules.block_transport import Position

RULE = verifiers.get("block_transport")
TREES = instances(vocab_sizes=(2, 3), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=100)


def masses(instance):
    """Return the sum of w(v) = p(v) (1 - (1 - min(1, q(v)/p(v)))^K) over all nodes."""
    total = 0
    for length in range(instance.draft_length + 1):
        for p, q in zip(instance.target.joint(length), instance.draft.joint(length), strict=True):
            if p > 0:
                total += p * (1 - (1 - min(1, q / p)) ** instance.num_paths)
    return total


@given(TREES)
@examples(40)
def test_block_efficiency_is_the_sum_of_the_masses(instance):
    law = emission_law(RULE, instance, exact=True, merged=False)
    assert law.block_efficiency == masses(instance)
    assert law.total_variation == 0


@given(TREES)
@examples(25)
def test_the_masses_stay_below_the_optimum_with_carry_over(instance):
    assert masses(instance) <= block_transport_optimum(instance, exact=True).value


@pytest.mark.parametrize(("length", "tokens"), [(2, 7), *at_night((3, 6))])
def test_debts_nest_over_three_calls_and_more(length, tokens):
    # A call emits one token at least, so some of these texts take as many calls as they have tokens.
    instance = Instance.random(2, length, num_paths=2, seed=6, agreement=0.3).rounded(8)
    assert decoded_law(RULE, instance, tokens, exact=True).total_variation == 0


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 3), max_tuples=27))
@examples(25)
def test_with_one_path_it_accepts_as_greedy_block_does(instance):
    mine = emission_law(RULE, instance, exact=True, merged=False)
    greedy = emission_law(verifiers.get("greedy_block"), instance, exact=True, merged=False)
    assert mine.accepted_length_pmf == greedy.accepted_length_pmf


def test_block_transport_needs_whole_models():
    with pytest.raises(InvalidInputError, match="bound_to"):
        RULE.verify(None, None, ())


def test_fresh_requests_stand_at_the_beginning_without_debts():
    (positions,) = RULE.initial_state(3)
    assert list(positions) == [Position((), ())] * 3
