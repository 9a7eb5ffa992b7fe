"""Verifiers that carry a state, driven through any sequence of calls that Hypothesis thinks of."""

import re

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import verifiers
from spec_oracle.cli import main
from spec_oracle.commands.options import FAILED
from spec_oracle.exact import decoded_law
from spec_oracle.toy import Instance
from spec_oracle.toy.strategies import instances
from verifiers import Drafts, replayed_decisions


class Decoding(RuleBasedStateMachine):
    """One request, decoded call by call with random decisions; its text and state must stay consistent."""

    paths = 1

    def make_verifier(self):
        return verifiers.get("greedy_block")

    @initialize(data=st.data())
    def start(self, data):
        self.instance = data.draw(
            instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(self.paths, self.paths))
        ).floats
        self.verifier = self.make_verifier()
        self.state = self.verifier.initial_state(1)
        self.text = ()

    @rule(seed=st.integers(0, 2**16))
    def call(self, seed):
        rng = np.random.default_rng(seed)
        drafts = self._drafts(rng)
        before = tuple(array.copy() for array in self.state)
        decisions = rng.random((1, 64))
        verdict, after = self.verifier.verify(drafts, replayed_decisions(decisions), self.state)
        again, _ = self.verifier.verify(drafts, replayed_decisions(decisions), self.state)
        assert np.array_equal(verdict.emitted, again.emitted)
        for old, kept in zip(before, self.state, strict=True):
            assert np.array_equal(old, kept)
        for token in verdict.emitted[0][: int(verdict.num_accepted[0]) + 1]:
            assert self.instance.target.conditional(self.text)[token] > 0
            self.text = (*self.text, int(token))
        self.state = after

    def _drafts(self, rng):
        length, vocab = self.instance.draft_length, self.instance.vocab_size
        tokens = np.zeros((1, self.paths, length), dtype=np.int64)
        draft = np.zeros((1, self.paths, length, vocab))
        target = np.zeros((1, self.paths, length + 1, vocab))
        for path in range(self.paths):
            context = self.text
            for i in range(length):
                target[0, path, i] = self.instance.target.conditional(context)
                draft[0, path, i] = self.instance.draft.conditional(context)
                tokens[0, path, i] = rng.choice(vocab, p=draft[0, path, i])
                context = (*context, int(tokens[0, path, i]))
            target[0, path, length] = self.instance.target.conditional(context)
        return Drafts.of_paths(tokens, draft, target)

    @invariant()
    def state_is_finite(self):
        for array in getattr(self, "state", ()):
            assert np.isfinite(np.asarray(array, dtype=float)).all()

    @rule()
    def text_law_is_the_targets(self):
        law = decoded_law(self.verifier, self.instance, self.instance.draft_length + 1)
        assert law.total_variation < 1e-9


class MultipathDecoding(Decoding):
    """The same with two paths."""

    paths = 2

    def make_verifier(self):
        return verifiers.get("greedy_multipath_carry")


class Forgetful:
    """A rule with state that starts every call afresh."""

    def __init__(self, rule):
        self._rule = rule
        self.single_path = True

    def initial_state(self, batch):
        return ()

    def verify(self, drafts, decisions, state):
        verdict, _ = self._rule.verify(drafts, decisions, ())
        return verdict, ()


class ForgetfulDecoding(Decoding):
    """The same with a defect that one call does not show."""

    def make_verifier(self):
        return Forgetful(verifiers.get("greedy_block"))


_FEW = settings(max_examples=15, stateful_step_count=6)

TestGreedyBlock = Decoding.TestCase
TestGreedyBlock.settings = _FEW
TestGreedyMultipathCarry = MultipathDecoding.TestCase
TestGreedyMultipathCarry.settings = _FEW


FIND = settings(max_examples=200, stateful_step_count=6, database=None, phases=[Phase.generate])


def test_the_machine_notices_a_state_that_is_dropped():
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ForgetfulDecoding, settings=FIND)


def test_a_failing_example_is_printed_as_an_instance_file(tmp_path):
    @given(instance=instances())
    @settings(database=None)
    def fails(instance):
        assert instance.vocab_size < 3

    with pytest.raises(AssertionError) as caught:
        fails()
    (printed,) = re.findall(r"Instance\.from_json\((.*)\)", "\n".join(caught.value.__notes__))
    file = tmp_path / "instance.json"
    file.write_text(printed)
    assert Instance.load(file).vocab_size == 3
    assert main(["audit", "token", "--instance", str(file)]) != FAILED
