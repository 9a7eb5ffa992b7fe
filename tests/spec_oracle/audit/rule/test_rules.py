"""Audits of rules on paths and trees: right ones pass, each defect fails its check, `accepts` is read."""

import inspect
import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit, effort
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import Cause
from spec_oracle.audit.subjects import of_rule
from spec_oracle.audit.suite import result_of
from spec_oracle.errors import InvalidInputError
from spec_oracle.report.what_to_do import what_to_do
from spec_oracle.toy import Instance
from tests.strategies import at_night, by_day
from tests.subjects import only
from verifiers import EMPTY, ROOT, Siblings, StatefulVerifier, Verdict
from verifiers.rows import TreeRows

ONLY_JOINT = AuditOptions(checks=())

OF_NIGHT = (
    *("sample_and_match", "canonical", "eagle", "k_seq", "naive", "nss", "recursive_rejection"),
    *("recursive_rejection_distinct", "univer", "greedy_multipath_block", "greedy_multipath_carry"),
    *("global_resolution", "balanced_multipath_block", "lookahead_multipath_block", "greedy_block"),
)
"""Rules of the kinds of others, audited at night; tests/verifiers/test_lossless.py proves all by day."""

SHORT = ("greedy_multipath_carry", "block_transport")
OF_ONE_CALL = [name for name in verifiers.names() if not isinstance(verifiers.get(name), StatefulVerifier)]
"""Rules whose outcomes of drafts of three tokens take seconds to enumerate: they are run on drafts of two."""


def status_of(found, check):
    return next(one for one in found.checks if one.name == check)


def of_rows(drafts, target=None, draft=None):
    """Return drafts with other rows [B, N+1, V]."""
    rows = {"target": target, "draft": draft}
    return replace(drafts, **{name: TreeRows(values) for name, values in rows.items() if values is not None})


def verified(name, drafts, decisions):
    return verifiers.get(name).verify(drafts, decisions)


CASES = [(name, replace(ONLY_JOINT, draft_length=2 if name in SHORT else 3)) for name in verifiers.names()]

CASES_BY_CHECKS = {(): "joint", None: "all"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *by_day(CASES, [case for case in CASES if case[0] not in OF_NIGHT]),
        *at_night(*((name, AuditOptions()) for name in verifiers.names())),
    ],
    ids=lambda value: value if isinstance(value, str) else CASES_BY_CHECKS[value.checks],
)
def test_every_rule_is_lossless(name, options):
    report = audit(name, options=options)
    found = only(report)
    assert (found.kind, found.verdict, found.evidence) == ("rule", SubjectVerdict.LOSSLESS, Evidence.EXACT)
    assert report.exit_code == 0
    assert found.total_variation < 1e-12
    assert -1e-9 < found.headroom < 0.5
    of_first_call = any(
        "those of the first call" in note for check in found.checks for note in check.remarks.notes
    )
    assert of_first_call == isinstance(verifiers.get(name), StatefulVerifier)


def test_a_rule_for_one_path_is_run_on_one_path_of_an_instance_of_several():
    """Four paths of three of four tokens are 17 million drafts, of which this rule reads 64."""
    toy = Instance.random(4, 3, num_paths=4, seed=1)
    report = audit("token", options=replace(ONLY_JOINT, instances={"four paths": toy}))
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 0)


@dataclass(frozen=True)
class Declared:
    """The rule of that name, said to be lossless for other siblings than it is."""

    name: str
    accepts: frozenset

    def verify(self, drafts, decisions):
        return verified(self.name, drafts, decisions)


@pytest.mark.parametrize(
    ("name", "accepts", "where"),
    [
        *at_night(
            ("recursive_rejection", {"distinct"}, r"'\w+'"),
            ("traversal", {"independent", "top"}, r"'\w+, top siblings, .*'"),
        ),
        ("recursive_rejection", {"independent", "distinct"}, r"'\w+, distinct siblings, .*'"),
    ],
)
def test_a_law_that_a_rule_does_not_take_is_lossy_with_a_counterexample(name, accepts, where, tmp_path):
    rule = Declared(name, frozenset(accepts))
    # To look for the smallest instance of a rule that is enumerated slowly takes ten seconds.
    quick = replace(ONLY_JOINT, shrink=name == "traversal")
    report = audit(rule, options=replace(quick, counterexamples=tmp_path))
    found = only(report)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.LOSSY, 1)
    assert re.search(f"on instance {where}$", status_of(found, "joint").detail)
    shown = found.counterexample
    assert isinstance(shown.gap.actual, Fraction)
    assert shown.gap.actual != shown.gap.expected
    again = audit(rule, options=replace(ONLY_JOINT, instances={"saved": Instance.load(shown.file)}))
    assert only(again).verdict is SubjectVerdict.LOSSY


def test_a_rule_for_beams_only_is_audited_on_one_path_and_on_trees():
    report = audit(Declared("nss", frozenset({"beam"})), options=ONLY_JOINT)
    found = only(report)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 0)
    assert "K = 1" in found.remarks.scope[0]
    assert "a stochastic beam of 2" in found.remarks.scope[0]


def test_an_instance_may_have_any_name():
    toy = Instance.random(2, 2, seed=1)
    rule = Declared("recursive_rejection", frozenset({"independent", "top"}))
    found = only(audit(rule, options=replace(ONLY_JOINT, instances={"a, b": toy}, shrink=False)))
    assert found.verdict is SubjectVerdict.LOSSY
    assert (
        "on instance 'a, b, top siblings, two children, one of which goes on'"
        in status_of(found, "joint").detail
    )


class RefusesOnTrees:
    """Right on paths; on other trees it accepts no draft."""

    accepts = frozenset({"independent"})

    def verify(self, drafts, decisions):
        if drafts.num_paths is not None:
            return verified("nss", drafts, decisions)
        return Verdict(np.full(drafts.batch, ROOT), decisions.categorical(drafts.target.row(ROOT)), drafts)


def test_a_rule_that_accepts_nothing_on_trees_is_inconclusive():
    report = audit(RefusesOnTrees(), options=ONLY_JOINT)
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.INCONCLUSIVE, 2)
    assert "never accepted a whole draft" in status_of(only(report), "joint").detail


class OfNeighbours:
    """Decides by the target distributions of the next request of the batch; all of a batch are alike."""

    accepts = frozenset(Siblings)

    def verify(self, drafts, decisions):
        target = np.roll(drafts.target.dense(), 1, axis=0)
        return verified("nss", of_rows(drafts, target), decisions)


class WritesInto:
    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        verdict = verified("nss", drafts, decisions)
        drafts.draft.row(ROOT)[:] = 0
        return verdict


class Forgets:
    """Right in its first calls, then draws from the draft's distributions."""

    accepts = frozenset({Siblings.TOP})

    def __init__(self):
        self.calls = 0

    def verify(self, drafts, decisions):
        self.calls += 1
        if self.calls > 12:
            drafts = of_rows(drafts, np.roll(drafts.target.dense(), 1, axis=2))
        return verified("nss", drafts, decisions)


class NaNAccepts:
    """A sibling whose q is NaN is accepted, possible or not."""

    accepts = frozenset({"distinct"})

    def verify(self, drafts, decisions):
        verdict = verified("naive", of_rows(drafts, draft=np.nan_to_num(drafts.draft.dense())), decisions)
        broken = np.isnan(drafts.draft.row(ROOT)).any(axis=1) & (drafts.parents[:, 0] == ROOT)
        return replace(verdict, node=np.where(broken, 0, verdict.node))


@pytest.mark.parametrize(
    ("rule", "check", "says"),
    [
        (OfNeighbours(), "batch", "request"),
        (WritesInto(), "inputs-kept", "draft_probs changed during the call"),
        (NaNAccepts(), "bad-input", "NaN draft probabilities: request"),
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

    def verify(self, drafts, decisions):
        rows = drafts.target.dense()
        third = rows.dtype.type(1) / rows.dtype.type(3)
        return verified("nss", of_rows(drafts, rows * third * 3), decisions)


class Floor:
    """Adds to every probability what is rounding at three tokens."""

    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        return verified("nss", of_rows(drafts, drafts.target.dense() + 1e-8), decisions)


def test_low_precision_is_a_note_unless_the_type_counts():
    rule = InDoublePrecisionOnly()
    found = result_of("scale", of_rule("mine", rule), Context())
    assert found.status is Status.PASSED
    assert found.remarks.notes[0].startswith("not for float16 rows: total variation")
    counted = result_of("scale", of_rule("mine", rule), Context(shapes=ShapeLimits(("float64", "float16"))))
    assert counted.status is Status.FAILED


def test_a_floor_that_shows_at_a_large_vocabulary_fails_scale():
    found = result_of("scale", of_rule("mine", Floor()), Context())
    assert found.status is Status.FAILED
    assert "total variation 0.00016 at V 32000, L 1, " in found.detail


class IdsOfSixteenBits:
    """Keeps the next token as a signed number of 16 bits."""

    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        verdict = verified("nss", drafts, decisions)
        return replace(verdict, next_token=np.asarray(verdict.next_token).astype(np.int16))


def test_an_id_that_becomes_negative_fails_scale():
    found = result_of("scale", of_rule("mine", IdsOfSixteenBits()), Context())
    assert found.status is Status.FAILED
    assert re.search(r"next_token: -\d+ at row \d+, expected 0..151935", found.detail)


@pytest.mark.parametrize("name", by_day(OF_ONE_CALL, {"univer"}))
def test_scale_and_bad_input_pass_in_torch(name):
    pytest.importorskip("torch")
    subject = of_rule(name, verifiers.get(name), array="torch")
    found = result_of("scale", subject, Context())
    assert found.remarks.notes == ()
    if name != "canonical":  # which is made for small vocabularies
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
    found, length = length_of(Says("traversal", frozenset({"distinct"}), "traversal"))
    assert (found.rule, found.rule_identified) == ("traversal", False)
    assert length.status is Status.PASSED
    found, length = length_of(Says("recursive_rejection_distinct", frozenset({"distinct"}), "traversal"))
    assert (found.verdict, length.status) == (SubjectVerdict.LOSSLESS, Status.FAILED)
    assert "accepted length is not that of 'traversal': total variation 0.1" in length.detail


def test_an_undeclared_rule_is_identified_by_its_emissions():
    found, length = length_of(Declared("recursive_rejection_distinct", frozenset({"distinct"})))
    assert (found.rule, found.rule_identified) == ("recursive_rejection_distinct", True)
    assert length.status is Status.PASSED
    assert length.detail.endswith(f"rule {found.rule!r} after each of 192 drafts")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("eagel", "declares unknown rule 'eagel'; did you mean 'eagle'"),
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

    def verify(self, drafts, decisions):
        del drafts, decisions


class OneTokenForAll(ReturnsNothing):
    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT))
        return Verdict(np.array([ROOT]), token, drafts)


class DecidesForOneTree(ReturnsNothing):
    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT)[:1])
        return Verdict(np.full(drafts.batch, ROOT), np.repeat(token, drafts.batch), drafts)


class DecidesForOne:
    def verify(self, drafts, decisions):
        rows, none = drafts.paths.target_probs[:, 0, 0], np.zeros(drafts.batch, dtype=np.int64)
        token = np.concatenate([decisions.categorical(row[None]) for row in rows])
        return Verdict.on_paths(drafts, none, none, token)


class ForToys:
    def verify(self, drafts, decisions):
        if drafts.vocab_size > 8 or drafts.depth > 3:
            raise ValueError("for toys")
        return verifiers.get("recursive_rejection").verify(drafts, decisions)


def test_a_rule_for_toys_is_never_said_to_keep_large_ids():
    facts = of_rule("mine", ForToys())
    limits = ShapeLimits(
        only=AuditOptions(vocabularies=[2, 3, 5, 8], lengths=[1, 2, 3]).context(1e-6).shapes.only
    )
    few = ShapeLimits(most=40)
    by_default, declared = (Context(budget=60.0, shapes=shapes) for shapes in (few, replace(limits, most=9)))
    for check, do in (
        ("shapes", "--only vocabularies=2,3,5,7,8 --only lengths=1,2,3"),
        ("scale", "Traits(largest"),
    ):
        found = result_of(check, facts, by_default)
        assert (found.status, do in found.remarks.do) == (Status.INCONCLUSIVE, True)
    assert result_of("shapes", facts, declared).status is Status.PASSED
    assert result_of("scale", facts, declared).status is Status.NOT_APPLICABLE


class NumbersOfOne:
    def verify(self, drafts, decisions):
        return Verdict(ROOT, 0, drafts)


class Raises(ReturnsNothing):
    def verify(self, drafts, decisions):
        raise KeyError("no such place")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (ReturnsNothing, "verify returned None; it must return a Verdict"),
        (OneTokenForAll, "verify decided for 1 request, the batch has 8"),
        (DecidesForOneTree, "verify decided for 1 request, the batch has 8: decide for all requests at once"),
        (DecidesForOne, "verify decided for 1 request, the batch has 8: decide for all requests at once"),
        (NumbersOfOne, "verify returned a Verdict with node int -1; it must be an array int [B]"),
        (Raises, "it is called as verify(drafts, decisions)"),
    ],
)
def test_a_rule_that_returns_no_verdict_is_broken(rule, says):
    report = audit(rule, options=ONLY_JOINT)
    assert what_to_do(only(report)).endswith("; docs/guide/write-a-verifier.md has it")
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert says in status_of(only(report), "joint").detail


@pytest.mark.parametrize("rule", [DecidesForOneTree, DecidesForOne])
def test_a_decision_for_one_request_is_named_with_its_line_whichever_check_meets_it(rule):
    line = next(
        number for number, text in enumerate(inspect.getsource(rule).splitlines()) if "token =" in text
    )
    at = f"test_rules.py:{inspect.getsourcelines(rule)[1] + line})"
    for check in ("joint", "batch"):
        found = result_of(check, of_rule("decides", rule()), Context(shrink=False))
        assert (found.status, found.cause) == (Status.FAILED, Cause.BROKEN_CONTRACT)
        assert "verify decided for 1 request, the batch has " in found.detail
        assert found.detail.endswith(at)


class Accepts:
    def __init__(self, accepts):
        self.accepts = accepts

    def verify(self, drafts, decisions):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("accepts", "says"),
    [
        ("independent", "got 'independent'"),
        (set(), "known are independent, paths, distinct"),
        ({"independant"}, "unknown law of siblings 'independant'; did you mean 'independent'"),
    ],
)
def test_a_wrong_accepts_is_one_sentence(accepts, says):
    with pytest.raises(InvalidInputError, match=f"^accepts: .*{says}"):
        audit(Accepts(accepts))


class OfTheArrays:
    """Written for drafts that were arrays of K paths."""

    def verify(self, drafts, decisions):
        batch, _, length = drafts.tokens.shape
        rows = drafts.target_probs[:, 0, 0]
        return batch, length, decisions.categorical(rows)


class ReadsRows(OfTheArrays):
    def verify(self, drafts, decisions):
        return decisions.categorical(drafts.target_probs[:, 0, 0])


class CountsAndTokens(OfTheArrays):
    def verify(self, drafts, decisions):
        nothing = np.zeros(drafts.batch, dtype=int)
        return Verdict(nothing, nothing, decisions.categorical(drafts.target.row(ROOT)), drafts.tokens)


@pytest.mark.parametrize("rule", [OfTheArrays, ReadsRows, CountsAndTokens])
def test_a_rule_of_the_former_interface_is_told_the_lines_to_change(rule):
    report = audit(rule, options=ONLY_JOINT)
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    detail = status_of(only(report), "joint").detail
    assert "drafts.paths" in detail
    assert "Verdict.on_paths(drafts, path, num_accepted, next_token)" in detail


class OfPathsSaidToTakeTrees:
    """Reads the arrays of K paths, which other trees do not have."""

    accepts = frozenset({"independent"})

    def verify(self, drafts, decisions):
        assert drafts.paths.num_paths
        return verified("nss", drafts, decisions)


def test_a_rule_that_refuses_trees_which_it_accepts_is_broken():
    report = audit(OfPathsSaidToTakeTrees(), options=ONLY_JOINT)
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    detail = status_of(only(report), "joint").detail
    assert "drafts: expected paths of one length" in detail
    assert "test_rules.py:" in detail


@pytest.mark.parametrize("check", ["shapes", "calls", "batch", "scale"])
def test_no_check_passes_a_rule_that_refuses_trees(check):
    few = Context(shapes=ShapeLimits(most=3))
    found = result_of(check, of_rule("mine", OfPathsSaidToTakeTrees()), few)
    assert found.status is not Status.PASSED
    assert "drafts: expected paths of one length" in found.detail


class RefusesBrokenInput:
    """Raises for rows that are no distributions, ids beyond V and parents that do not come before."""

    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        rows = np.concatenate([drafts.target.dense(), drafts.draft.dense()[:, :1]], axis=1)
        is_law = np.isfinite(rows).all() and (rows >= 0).all() and (abs(rows.sum(axis=-1) - 1) < 1e-9).all()
        if not is_law or not (drafts.present | (drafts.parents == EMPTY)).all():
            raise InvalidInputError("drafts: broken")
        return verified("nss", drafts, decisions)


def test_broken_input_may_be_refused_with_an_error_of_ours():
    found = result_of("bad-input", of_rule("mine", RefusesBrokenInput()), Context())
    assert found.status is Status.PASSED, found.detail


def test_a_rule_with_verify_tree_is_told_its_new_name():
    class OfTrees:
        accepts = frozenset({"top"})

        def verify_tree(self, drafts, decisions):
            raise NotImplementedError

    with pytest.raises(InvalidInputError, match=r"has verify_tree; a rule for trees has verify\(drafts"):
        audit(OfTrees())
