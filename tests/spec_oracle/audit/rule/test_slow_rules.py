"""A rule that draws more than it needs has many outcomes: checks begin with small drafts, within a budget."""

import time
from unittest import mock

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import Status, effort
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.rule import joint
from spec_oracle.audit.rule import scale as rule_scale
from spec_oracle.audit.rule import shapes as rule_shapes
from spec_oracle.audit.shapes.tried import TriedInTurn
from spec_oracle.audit.subjects import of_rule
from spec_oracle.audit.suite import result_of
from spec_oracle.exact.drafting import StochasticBeam
from spec_oracle.exact.errors import TooManyBranchesError
from verifiers import EMPTY, ROOT, Siblings, Verdict


class DrawsForEveryPlace:
    """Samples a token N + 1 times, whatever was accepted: right, with V^(N+1) outcomes after one draft."""

    accepts = frozenset(Siblings)

    def verify(self, drafts, decisions):
        batch, rows = np.arange(drafts.batch), drafts.target.dense()
        node, token = np.full(drafts.batch, ROOT), np.full(drafts.batch, -1)
        going = np.ones(drafts.batch, dtype=bool)
        for _ in range(drafts.places + 1):
            drawn = decisions.categorical(rows[batch, node + 1])
            below = drafts.present & (drafts.parents == node[:, None]) & (drafts.tokens == drawn[:, None])
            child = np.where(below.any(axis=1), below.argmax(axis=1), EMPTY)
            token = np.where(going, drawn, token)
            going = going & (child != EMPTY)
            node = np.where(going, child, node)
        return Verdict(node, token, drafts)


def result(check, **context):
    return result_of(check, of_rule("slow", DrawsForEveryPlace()), Context(**context))


@pytest.mark.parametrize("check", ["calls", "batch", "bad-input", "inputs-kept", "scale"])
def test_a_check_ends_with_an_answer(check):
    found = result(check, budget=60.0)
    assert found.status is Status.PASSED, found.detail


class ByCoins:
    """Samples a token by halving the vocabulary, a coin each time: V outcomes of coins."""

    def verify(self, drafts, decisions):
        row = drafts.target.row(ROOT)
        ends = np.pad(np.cumsum(row, axis=1), ((0, 0), (1, 0)))
        request, low = np.arange(drafts.batch), np.zeros(drafts.batch, dtype=int)
        high = low + row.shape[1]
        while (high - low > 1).any():
            middle = (low + high + 1) // 2
            whole = ends[request, high] - ends[request, low]
            above = ends[request, high] - ends[request, middle]
            chance = np.divide(above, whole, where=(whole > 0) & (high - low > 1), out=0 * whole)
            goes_up = decisions.bernoulli(chance)
            low, high = np.where(goes_up, middle, low), np.where(goes_up | (high - low == 1), high, middle)
        return Verdict(np.full(drafts.batch, ROOT), low, drafts)


def test_scale_leaves_a_shape_of_too_many_outcomes_for_one_of_few_tokens(monkeypatch):
    monkeypatch.setattr(rule_scale, "_SECONDS", 0.3)
    started = time.process_time()
    found = result_of("scale", of_rule("by coins", ByCoins()), Context(budget=60.0))
    assert found.status is Status.PASSED, found.detail
    assert time.process_time() - started < 20


def joint_without_time(rule, monkeypatch, **context):
    monkeypatch.setattr(effort, "RULE_LEAST_SECONDS", 0.0)
    time_is_over = TooManyBranchesError("the time for this distribution is over")
    with mock.patch.object(joint, "emission_law", side_effect=time_is_over):
        return result_of("joint", of_rule("mine", rule), Context(**context))


def test_without_time_joint_is_open_and_says_what_to_do(monkeypatch):
    found = joint_without_time(DrawsForEveryPlace(), monkeypatch, budget=0.0)
    assert found.status is Status.INCONCLUSIVE
    assert "was not run in this time" in found.detail
    assert found.remarks.do == "--budget"


def test_draft_trees_are_listed_up_to_the_end_of_the_time():
    with pytest.raises(TooManyBranchesError):
        StochasticBeam(2).law(panel(5, 4, 1, 0)["flat"], end=0.0)


def test_without_time_kinds_of_trees_are_named_that_shapes_did_not_begin(monkeypatch):
    monkeypatch.setattr(rule_shapes, "_SECONDS_ON_TREES", 0.0)
    others = TriedInTurn(None)
    assert not [*rule_shapes.other_sizes(others, of_rule("slow", DrawsForEveryPlace()), Context(), 0.0)]
    assert any("5 children after 2 tokens" in str(case) for case in others.not_traced)


def test_without_time_calls_are_not_run(monkeypatch):
    monkeypatch.setattr(effort, "RULE_LEAST_SECONDS", 0.0)
    found = result("calls", budget=0.0)
    assert found.status is Status.NOT_RUN
    assert "raise --budget" in found.detail


def test_in_rationals_joint_has_no_time_limit(monkeypatch):
    monkeypatch.setattr(effort, "RULE_LEAST_SECONDS", 0.0)
    rule = of_rule("nss", verifiers.get("nss"))
    found = result_of("joint", rule, Context(budget=0.0, exact=True, inputs=Inputs(vocab_size=2)))
    assert found.status is Status.PASSED


def test_the_least_budget_suffices_for_every_rule_of_ours():
    rule = of_rule("block_transport", verifiers.get("block_transport"))
    found = result_of("joint", rule, Context(budget=0.001, inputs=Inputs(draft_length=2)))
    assert found.status is Status.PASSED
