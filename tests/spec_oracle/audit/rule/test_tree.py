"""Audits of rules for draft trees: right rules pass, each defect fails its check, `accepts` is read."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit, effort
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.rule.subject import names, of_tree_rule
from spec_oracle.audit.suite import result_of
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


class NaNAccepts:
    """A sibling whose q is NaN is accepted, possible or not."""

    accepts = frozenset({"distinct"})

    def verify_tree(self, drafts, decisions):
        clean = replace(drafts, draft_probs=np.nan_to_num(drafts.draft_probs))
        verdict = verifiers.tree_rule("naive").verify_tree(clean, decisions)
        broken = np.isnan(drafts.draft_probs[:, 0]).any(axis=1) & (drafts.parents[:, 0] == ROOT)
        return replace(verdict, node=np.where(broken, 0, verdict.node))


class FallsBackToTokenZero:
    """A sampled index that is the last one before a uniform of 1 comes out as 0."""

    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        verdict = verifiers.tree_rule("nss").verify_tree(drafts, decisions)
        is_highest = ~decisions.bernoulli(np.full(drafts.batch, 1 - 2.0**-53))
        return replace(verdict, next_token=np.where(is_highest, 0, verdict.next_token))


class ClimbsFromTheLeaves:
    """Refuses every draft, and looks how deep a tree is by going up, without end in a circle."""

    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        for request in range(drafts.batch):
            place = 0
            while place >= 0:
                place = int(drafts.parents[request, min(place, drafts.places - 1)])
        return verifiers.tree_rule("nss").verify_tree(drafts, decisions)


class AcceptsAnyPlace:
    """Accepts the first place of a tree where that has no parent."""

    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        verdict = verifiers.tree_rule("nss").verify_tree(drafts, decisions)
        return replace(verdict, node=np.where(drafts.parents[:, 0] >= drafts.places, 0, verdict.node))


@pytest.mark.parametrize(
    ("rule", "check", "says"),
    [
        (OfNeighbours(), "batch", "request"),
        (WritesInto(), "inputs-kept", "draft_probs changed during the call"),
        (NaNAccepts(), "bad-input", "NaN draft probabilities: request"),
        (FallsBackToTokenZero(), "bad-input", "random numbers exactly 0 or just under 1: request"),
        (ClimbsFromTheLeaves(), "bad-input", "place that is its own parent: still running after"),
        (
            AcceptsAnyPlace(),
            "bad-input",
            "parent that does not exist: request 0 accepted place 0, from which",
        ),
    ],
)
def test_a_defect_fails_its_check(rule, check, says, monkeypatch):
    monkeypatch.setattr(effort, "BAD_INPUT_SECONDS", 0.5)
    found = only(audit(rule, options=AuditOptions(checks=(check,), shrink=False)))
    assert status_of(found, check).status is Status.FAILED
    assert says in status_of(found, check).detail


class InDoublePrecisionOnly:
    """Computes in the type of the rows: 1e-5 is lost in float32 and more, and counts in float16."""

    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        third = drafts.target_probs.dtype.type(1) / drafts.target_probs.dtype.type(3)
        rows = drafts.target_probs * third * 3
        return verifiers.tree_rule("nss").verify_tree(replace(drafts, target_probs=rows), decisions)


class Floor:
    """Adds to every probability what is rounding at three tokens."""

    accepts = frozenset({"top"})

    def verify_tree(self, drafts, decisions):
        rows = drafts.target_probs + 1e-8
        return verifiers.tree_rule("nss").verify_tree(replace(drafts, target_probs=rows), decisions)


def test_low_precision_is_a_note_unless_the_type_counts():
    rule = InDoublePrecisionOnly()
    found = result_of("scale", of_tree_rule("mine", rule), Context())
    assert found.status is Status.PASSED
    assert found.remarks.notes[0].startswith("not for float16 rows: total variation")
    counted = result_of(
        "scale", of_tree_rule("mine", rule), Context(shapes=ShapeLimits(("float64", "float16")))
    )
    assert counted.status is Status.FAILED


def test_a_floor_that_shows_at_a_large_vocabulary_fails_scale():
    found = result_of("scale", of_tree_rule("mine", Floor()), Context())
    assert found.status is Status.FAILED
    assert "of one call at V = 32,000" in found.detail


@pytest.mark.parametrize("name", by_day(names(), {"trees/traversal", "trees/univer"}))
def test_scale_and_bad_input_pass_in_torch(name):
    pytest.importorskip("torch")
    subject = of_tree_rule(name, verifiers.tree_rule(name.removeprefix("trees/")), array="torch")
    found = result_of("scale", subject, Context())
    assert found.remarks.notes == ()
    if name != "trees/canonical":  # which is made for small vocabularies
        assert "float64, float32, bfloat16, float16" in found.detail
    assert result_of("bad-input", subject, Context()).status is Status.PASSED


def length_of(rule):
    found = only(audit(rule, options=AuditOptions(checks=("length",), shrink=False)))
    return found, status_of(found, "length")


@dataclass(frozen=True)
class Says(Declared):
    """The rule of that name, which declares ``rule``."""

    rule: str


def test_the_accepted_length_is_compared_with_the_declared_rule():
    found, length = length_of(Says("traversal", frozenset({"distinct"}), "trees/traversal"))
    assert (found.rule, found.rule_identified) == ("trees/traversal", False)
    assert length.status is Status.PASSED
    found, length = length_of(Says("recursive_rejection_distinct", frozenset({"distinct"}), "traversal"))
    assert (found.verdict, length.status) == (SubjectVerdict.LOSSLESS, Status.FAILED)
    assert "accepted length is not that of 'trees/traversal': total variation 0.0" in length.detail


def test_a_rule_that_declares_none_is_identified_by_what_it_emits():
    found, length = length_of(Declared("recursive_rejection_distinct", frozenset({"distinct"})))
    assert (found.rule, found.rule_identified) == ("trees/recursive_rejection_distinct", True)
    assert length.status is Status.PASSED
    assert length.detail.endswith(f"rule {found.rule!r} after each of 128 draft trees")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("eagel", "declares unknown tree rule 'eagel'; did you mean 'eagle'"),
        ("univer", "declares univer, which does not accept its siblings: distinct"),
    ],
)
def test_a_wrong_declared_rule_is_one_sentence(rule, says):
    with pytest.raises(InvalidInputError, match=f"^rule: .*{says}"):
        audit(Says("naive", frozenset({"distinct"}), rule))


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
