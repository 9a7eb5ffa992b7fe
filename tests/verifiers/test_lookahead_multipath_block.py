"""Look-ahead multi-path block: lossless, its selected path has the law it says, special cases, shortfall."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import verifiers
from lab.studies.selected_path import selected_path
from spec_oracle.exact import emission_law
from spec_oracle.exact.call import draft_table
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from tests.verifiers import balanced_reference as reference
from verifiers.rules.lookahead_multipath_block import Division, LookaheadMultipathBlockVerifier

TREES = instances(vocab_sizes=(2, 4), draft_lengths=(1, 4), num_paths=(1, 3), max_tuples=300)
SMALL_TREES = instances(vocab_sizes=(2, 3), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=27)
STEPS = st.sampled_from([1, 2, 3, 64])

EQUAL = Instance.context_free(["1/4", "1/4", "1/2"], ["1/4", "1/4", "1/2"], draft_length=2, num_paths=2)
DISJOINT = Instance.context_free(["1/2", "1/2", 0, 0], [0, 0, "1/2", "1/2"], draft_length=2, num_paths=2)
TIED = Instance.context_free(["1/3", "1/3", "1/3"], ["1/6", "1/6", "2/3"], draft_length=2, num_paths=3)


@given(TREES, STEPS)
@example(EQUAL, 64)
@example(DISJOINT, 64)
@example(TIED, 64)
@examples(100)
def test_lossless_with_any_number_of_ranks(instance, steps):
    assert (
        emission_law(LookaheadMultipathBlockVerifier(steps), instance, merged=False).total_variation < 1e-12
    )


@given(SMALL_TREES, STEPS)
@example(EQUAL, 3)
@example(TIED, 2)
@examples(20)
def test_exactly_lossless_in_rationals(instance, steps):
    law = emission_law(LookaheadMultipathBlockVerifier(steps), instance, exact=True, merged=False)
    assert law.total_variation == 0


def test_with_the_rows_of_the_draft_it_would_be_lossy(monkeypatch):
    instance = Instance.random(3, 2, num_paths=2, seed=0)
    monkeypatch.setattr(Division, "rate", lambda *_: 1.0)
    assert emission_law(LookaheadMultipathBlockVerifier(), instance, merged=False).total_variation > 1e-3


class _Path(Exception):  # noqa: N818  # a signal, not an error
    """Carries the chances with which paths are selected: the first thing that the rule asks for."""


class _FirstQuestion:
    def categorical(self, weights):
        raise _Path(weights)


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=729), STEPS)
@examples(40)
def test_the_selected_path_has_the_law_of_its_ranks(instance, steps):
    toy = instance.floats
    table = draft_table(toy)
    drafts = table.drafts(np.arange(len(table.law.probability)))
    rule = LookaheadMultipathBlockVerifier(steps)
    with pytest.raises(_Path) as asked:
        rule.verify(drafts, _FirstQuestion())
    (chances,) = asked.value.args
    found = np.zeros(toy.vocab_size**toy.draft_length)
    whole = table.law.nodes[:, -toy.num_paths :] - sum(
        toy.vocab_size**depth for depth in range(toy.draft_length)
    )
    np.add.at(found, whole, table.law.probability[:, None] * chances)
    expected, _ = selected_path(toy, steps)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@given(TREES)
@examples(40)
def test_tokens_per_call_follow_from_the_nodes(instance):
    _, tokens = selected_path(instance)
    law = emission_law(LookaheadMultipathBlockVerifier(), instance, merged=False)
    assert law.block_efficiency == pytest.approx(tokens, abs=1e-12)


@given(instances(vocab_sizes=(2, 6), draft_lengths=(1, 1), num_paths=(1, 4), max_tuples=256), STEPS)
def test_one_step_attains_the_optimum(instance, steps):
    law = emission_law(LookaheadMultipathBlockVerifier(steps), instance, merged=False)
    p, q = instance.exact.target.rows(0)[0], instance.exact.draft.rows(0)[0]
    optimum = float(reference.optimal_acceptance(p, q, instance.num_paths))
    assert law.block_efficiency == pytest.approx(1 + optimum, abs=1e-11)


@pytest.mark.parametrize("size", [(2, 2, 2), (3, 2, 2), (2, 3, 3), (3, 3, 2)])
def test_a_third_of_the_shortfall_of_global_resolution(size):
    vocab, length, paths = size
    rules = [verifiers.get(name) for name in ("lookahead_multipath_block", "global_resolution")]
    shortfalls = []
    for agreement in (0.0, 0.4, 0.8):
        toy = Instance.random(vocab, length, num_paths=paths, seed=3, agreement=agreement).rounded(32)
        optimum = float(multi_path_optimum(toy).value)
        shortfalls.append(
            [1 - emission_law(rule, toy, merged=False).block_efficiency / optimum for rule in rules]
        )
    ours, theirs = np.mean(shortfalls, axis=0)
    assert 0 < 3 * ours < theirs
