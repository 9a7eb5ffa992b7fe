"""Audits in rationals: a float in a decision is named with its line, and never called lossy."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.report import AUDIT_FORMATS
from tests.strategies import at_night, by_day
from tests.subjects import checks_of
from verifiers import ROOT, Verdict
from verifiers.arrays import filled
from verifiers.parts.walk import walk

EXACT = AuditOptions(vocab_size=2, draft_length=1, exact=True, checks=("calls",), shrink=False)
DO = "with --exact compute with the numbers of the arrays, or make constants by `filled(x, 0.5)`"


class Rule:
    def verify(self, drafts, decisions):
        return walk(drafts, decisions, self.token)

    def token(self, node, decisions):
        first, second = decisions.categorical(node.target), decisions.categorical(node.target)
        return np.where(decisions.bernoulli(self.coin(node.target[:, 0])), first, second)


class MadeByFilled(Rule):
    def coin(self, like):
        return filled(like, 0.5)


class OfFloatsThatAreCertain(Rule):
    def coin(self, like):
        return np.ones(len(like))


class OfWholeWeights(Rule):
    def token(self, node, decisions):
        which = decisions.categorical(np.ones((len(node.target), 2), dtype=int))
        found = [decisions.categorical(node.target) for _ in range(2)]
        return np.choose(which, found)


class ClippedByFloats(Rule):
    def token(self, node, decisions):
        return decisions.categorical(np.clip(node.target, 0.0, 1.0))


RIGHT = [MadeByFilled, OfFloatsThatAreCertain, OfWholeWeights, ClippedByFloats]


@pytest.mark.parametrize("rule", by_day(RIGHT, {*RIGHT} - {OfWholeWeights}))
def test_rules_of_rationals_are_proven_without_rounding(rule):
    report = audit(rule, options=EXACT)
    (found,) = report.subjects
    assert (found.verdict, found.total_variation, report.exit_code) == (SubjectVerdict.LOSSLESS, 0, 0)


class AnArrayOfFloats(Rule):
    def token(self, node, decisions):
        coin = decisions.bernoulli(np.full(len(node.target), 0.5))  # float
        return np.where(coin, *(decisions.categorical(node.target) for _ in range(2)))


class TimesAFloat(Rule):
    def token(self, node, decisions):
        return decisions.categorical(node.target * 0.5)  # float


class TurnedIntoFloats(Rule):
    def token(self, node, decisions):
        return decisions.categorical(node.target.astype(float))  # float


class OfFloatsInItsState(Rule):
    def initial_state(self, batch):
        return (np.full(batch, 0.25),)

    def verify(self, drafts, decisions, state):
        decisions.bernoulli(state[0])  # float
        return verifiers.get("token").verify(drafts, decisions), state


class ATree:
    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT) * 0.1)  # float
        return Verdict(np.full(drafts.batch, ROOT), token, drafts)


FLOATS = [AnArrayOfFloats, TimesAFloat, TurnedIntoFloats, OfFloatsInItsState, ATree]


def line_of(rule):
    lines, first = inspect.getsourcelines(rule)
    return next(number for number, line in enumerate(lines, start=first) if line.endswith("# float\n"))


@pytest.mark.parametrize("rule", FLOATS)
def test_a_float_in_a_decision_is_named_with_its_line(rule):
    report = audit(rule, options=EXACT)
    (found,) = report.subjects
    assert (found.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    joint = checks_of(found)["joint"]
    assert f"(at tests/spec_oracle/audit/test_rationals.py:{line_of(rule)})" in joint.detail
    assert joint.detail.count("(at ") == 1
    assert "is a float" in joint.detail
    assert DO in joint.detail


@pytest.mark.parametrize("rule", [*FLOATS[:4], *at_night(*RIGHT)])
def test_rules_are_lossless_in_floats(rule):
    (found,) = audit(rule, options=replace(EXACT, exact=False)).subjects
    assert found.verdict is SubjectVerdict.LOSSLESS


class WantsFloats(Rule):
    def token(self, node, decisions):
        return decisions.categorical(np.exp(np.log(node.target + 1e-300)))


def test_code_that_takes_no_rationals_is_told_what_it_is_given():
    report = audit(WantsFloats, options=EXACT)
    (found,) = report.subjects
    joint = checks_of(found)["joint"]
    assert joint.status is Status.INCONCLUSIVE
    assert "test_rationals.py:" in joint.detail
    assert "--exact gives it arrays of rationals" in joint.detail
    assert "do: leave out --exact\n" in AUDIT_FORMATS["text"](report)
