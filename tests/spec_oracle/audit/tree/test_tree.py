"""Audits of rules for draft trees: right rules pass, each defect fails its check, `accepts` is read."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.tree.subject import names
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance
from tests.strategies import at_night, by_day
from verifiers.trees import ROOT, Siblings, TreeVerdict

ONLY_JOINT = AuditOptions(checks=())
SLOW = {"trees/eagle", "trees/global_resolution", "trees/k_seq", "trees/canonical"}
IN_FULL = ("trees/block", "trees/nss", "trees/traversal", "trees/top_draft")


def only(report):
    (subject,) = report.subjects
    return subject


def status_of(found, check):
    return next(one for one in found.checks if one.name == check)


CASES = [(name, ONLY_JOINT if name not in IN_FULL else AuditOptions()) for name in names()]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *by_day(CASES, [case for case in CASES if case[0] not in SLOW]),
        *at_night(*((name, AuditOptions()) for name in names() if name not in IN_FULL)),
    ],
    ids=lambda value: value if isinstance(value, str) else "joint" if value.checks == () else "all",
)
def test_every_tree_rule_is_lossless(name, options):
    report = audit(name, options=options)
    found = only(report)
    assert (found.kind, found.verdict, found.evidence) == ("tree", SubjectVerdict.LOSSLESS, Evidence.EXACT)
    assert report.exit_code == 0
    assert found.total_variation < 1e-12
    assert -1e-9 < found.headroom < 0.5


def test_in_rationals_the_total_variation_is_zero():
    assert only(audit("trees/univer", options=replace(ONLY_JOINT, exact=True))).total_variation == 0


@dataclass(frozen=True)
class Declared:
    """The rule of that name, said to be lossless for other siblings than it is."""

    name: str
    accepts: frozenset

    def verify_tree(self, drafts, decisions):
        return verifiers.tree_rule(self.name).verify_tree(drafts, decisions)


@pytest.mark.parametrize(("name", "siblings"), [("recursive_rejection", "distinct"), ("traversal", "top")])
def test_a_law_that_a_rule_does_not_take_is_lossy_with_a_counterexample(name, siblings, tmp_path):
    rule = Declared(name, frozenset({siblings}))
    # To look for the smallest instance of a rule that is enumerated slowly takes ten seconds.
    quick = replace(ONLY_JOINT, shrink=name == "traversal")
    report = audit(rule, options=replace(quick, counterexamples=tmp_path))
    found = only(report)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.LOSSY, 1)
    assert f"{siblings} siblings" in status_of(found, "joint").detail
    shown = found.counterexample
    assert isinstance(shown.gap.actual, Fraction)
    assert shown.gap.actual != shown.gap.expected
    again = audit(rule, options=replace(ONLY_JOINT, instances={"saved": Instance.load(shown.file)}))
    assert only(again).verdict is SubjectVerdict.LOSSY


class OfNeighbours:
    """Decides by the target distributions of the next request of the batch; all of a batch are alike."""

    accepts = frozenset(Siblings)

    def verify_tree(self, drafts, decisions):
        target = np.roll(drafts.target_probs, 1, axis=0)
        return verifiers.tree_rule("nss").verify_tree(replace(drafts, target_probs=target), decisions)


class WritesInto:
    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        verdict = verifiers.tree_rule("nss").verify_tree(replace(drafts), decisions)
        drafts.draft_probs[:] = 0
        return verdict


class Forgets:
    """Right in its first calls, then draws from the draft's distributions."""

    accepts = frozenset({Siblings.TOP})

    def __init__(self):
        self.calls = 0

    def verify_tree(self, drafts, decisions):
        self.calls += 1
        if self.calls > 12:
            drafts = replace(drafts, target_probs=np.roll(drafts.target_probs, 1, axis=2))
        return verifiers.tree_rule("nss").verify_tree(drafts, decisions)


@pytest.mark.parametrize(("rule", "check"), [(OfNeighbours(), "batch"), (WritesInto(), "inputs-kept")])
def test_a_defect_fails_its_check(rule, check):
    found = only(audit(rule, options=AuditOptions(checks=(check,), shrink=False)))
    assert status_of(found, check).status is Status.FAILED


def test_a_rule_that_changes_from_call_to_call_is_lossy():
    found = only(audit(Forgets(), options=AuditOptions(checks=("calls",), shrink=False)))
    assert found.verdict is SubjectVerdict.LOSSY


class ReturnsNothing:
    accepts = frozenset({Siblings.TOP})

    def verify_tree(self, drafts, decisions):
        del drafts, decisions


class OneTokenForAll(ReturnsNothing):
    def verify_tree(self, drafts, decisions):
        token = decisions.categorical(drafts.target_probs[:, 0])
        return TreeVerdict(np.array([ROOT]), token, drafts)


class Raises(ReturnsNothing):
    def verify_tree(self, drafts, decisions):
        raise KeyError("no such place")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (ReturnsNothing, "verify_tree returned NoneType; it must return a TreeVerdict"),
        (OneTokenForAll, "node: expected shape"),
        (Raises, "it is called as verify_tree"),
    ],
)
def test_a_rule_that_returns_no_verdict_is_broken(rule, says):
    report = audit(rule, options=ONLY_JOINT)
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert says in status_of(only(report), "joint").detail


class Accepts:
    def __init__(self, accepts):
        if accepts is not None:
            self.accepts = accepts

    def verify_tree(self, drafts, decisions):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("accepts", "says"),
    [
        (None, "has verify_tree, which needs an attribute accepts"),
        ("independent", "got 'independent'"),
        (set(), "known are independent, paths, distinct"),
        ({"independant"}, "unknown kind of siblings 'independant'; did you mean 'independent'"),
    ],
)
def test_a_wrong_accepts_is_one_sentence(accepts, says):
    with pytest.raises(InvalidInputError, match=f"^accepts: .*{says}"):
        audit(Accepts(accepts))


def test_names_of_tree_rules_begin_with_trees():
    assert {only(audit("block", options=ONLY_JOINT)).kind} == {"verifier"}
    with pytest.raises(InvalidInputError, match="trees/eagle"):
        audit("trees/eagel")
