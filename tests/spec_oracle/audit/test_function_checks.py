"""Checks of plain functions beyond the law of one call: what they find, when they stand back, what counts.

Every check that draws runs at the shares of 1e-6, with fixed seeds: what fails here once fails always.
"""

import time

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Status, Subject, SubjectVerdict, audit
from spec_oracle.audit.bad_input import bad_input_of_function
from spec_oracle.audit.large_vocabulary import equal_tokens
from spec_oracle.audit.low_precision import low_precision
from spec_oracle.audit.mixed_batch import mixed_batch
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import as_plain
from spec_oracle.audit.results import Evidence
from spec_oracle.audit.watch import first_failure
from spec_oracle.commands.audit import CHECKS
from spec_oracle.specimens.registry import specimens
from spec_oracle.statistics import CHECK_SHARES

STATEFUL = ("greedy_block", "greedy_multipath_carry", "block_transport")
TOKEN = as_plain(verifiers.get("token"))
SMALL = panel(3, 2, 1, 0)["flat"]


def audited(function, *checks, **options):
    """Return the report on a function and its checks by name."""
    chosen = AuditOptions(draft_length=2, shrink=False, checks=checks, **options)
    subject = function if isinstance(function, Subject) else Subject("mine", function=function)
    report = audit(subject, options=chosen)
    return report, {check.name: check for check in report.subjects[0].checks}


def test_the_command_line_offers_every_check_of_the_registry():
    assert {*CHECKS, "joint", "draft-law"} == set(CHECK_SHARES)


def test_a_right_function_passes_them_all():
    report, checks = audited(Subject("mine", function=TOKEN, rule_at=lambda _: "token"), *CHECKS)
    assert list(checks) == ["joint", *CHECKS]
    assert {check.status for check in checks.values()} == {Status.PASSED}
    assert report.exit_code == 0


@pytest.mark.parametrize("name", ["fixed-seed", "overlapping-uniforms"])
def test_dependence_between_calls_or_requests_is_lossy_by_draws(name):
    report, checks = audited(specimens()[name].function, "calls", "batch")
    (found,) = report.subjects
    assert checks["joint"].status is Status.PASSED
    assert Status.FAILED in (checks["calls"].status, checks["batch"].status)
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSY, Evidence.STATISTICAL)
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("residual-in-callers-memory", "inputs-kept"),
        ("zero-uniform-accepts", "bad-input"),
        ("fixed-seed", "streams"),
        ("last-tile-lost", "scale"),
        ("sums-in-the-rows-type", "scale"),
    ],
)
def test_other_faults_leave_the_verdict_but_not_the_exit_code(name, check):
    report, checks = audited(specimens()[name].function, check)
    assert checks[check].status is Status.FAILED
    assert report.subjects[0].verdict is SubjectVerdict.LOSSLESS
    assert report.exit_code == 2


def test_a_failure_on_record_is_shown_and_does_not_fail_the_run():
    subject = Subject(
        "mine", function=specimens()["zero-uniform-accepts"].function, known={"bad-input": "a page"}
    )
    report, checks = audited(subject, "bad-input")
    assert checks["bad-input"].status is Status.FAILED
    assert checks["bad-input"].known == "a page"
    assert report.exit_code == 0


def test_a_lossy_function_is_not_compared_with_laws_again():
    _, checks = audited(specimens()["always-accept"].function, *CHECKS)
    assert checks["joint"].status is Status.FAILED
    assert {name for name, check in checks.items() if check.status is Status.NOT_RUN} == {
        *("length", "calls", "streams", "batch", "scale")
    }


@pytest.mark.parametrize("name", [n for n in verifiers.names() if n not in STATEFUL])
def test_built_in_rules_answer_broken_input_inside_the_support(name):
    subject = Subject(name, function=as_plain(verifiers.get(name)))
    for seed in range(3):
        result = bad_input_of_function(subject, panel(3, 3, 1, seed)["zeros"], seed=seed)
        assert result.status is Status.PASSED, result.detail


def test_a_slow_function_is_spared_what_its_budget_does_not_allow():
    def slow(*arguments):
        time.sleep(0.02)
        return TOKEN(*arguments)

    _, checks = audited(slow, *CHECKS, budget=1.0)
    assert checks["inputs-kept"].status is Status.PASSED
    assert checks["scale"].status is Status.NOT_RUN
    assert "raise --budget" in checks["scale"].detail


def test_several_paths_run_what_is_made_for_them():
    function = as_plain(verifiers.get("recursive_rejection"))
    report, checks = audited(Subject("mine", function=function, single_path=False), *CHECKS, num_paths=2)
    not_run = {name for name, check in checks.items() if check.status is Status.NOT_RUN}
    assert not_run == {"length", "batch", "bad-input", "scale"}
    assert report.exit_code == 0


def test_on_instances_of_the_user_only_the_law_is_judged():
    _, checks = audited(TOKEN, *CHECKS, instances={"mine": SMALL})
    assert list(checks) == ["joint"]


def test_types_that_a_function_refuses_are_named():
    def double_only(tokens, draft_probs, target_probs, generator):
        if target_probs.dtype != np.float64:
            raise TypeError("float64 only")
        return TOKEN(tokens, draft_probs, target_probs, generator)

    found = low_precision("scale", Subject("mine", function=double_only), SMALL, alpha=1e-8, seed=0)
    assert found.status is Status.NOT_RUN
    assert "float32" in found.detail
    assert "float64 only" in found.detail


def test_tokens_that_cannot_come_out_are_noticed_by_coincidence():
    def every_fiftieth(tokens, draft_probs, target_probs, generator):
        emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
        first = emitted[:, 0] - emitted[:, 0] % 50
        return np.concatenate([first[:, None], np.full_like(emitted[:, 1:], -1)], axis=1), 0 * accepted

    right = equal_tokens("scale", Subject("mine", function=TOKEN), alpha=1e-8, seed=0)
    wrong = equal_tokens("scale", Subject("mine", function=every_fiftieth), alpha=1e-8, seed=0)
    assert right.status is Status.PASSED
    assert wrong.status is Status.FAILED


def mixed(tokens, draft_probs, target_probs, generator, *, draft_lengths=None, is_greedy=None, wrong=""):
    """A right token rule for mixed batches, request by request; ``wrong`` names a defect."""
    batch, length = tokens.shape
    emitted, accepted = np.full((batch, length + 1), -1), np.zeros(batch, int)
    for b in range(batch):
        n = length if draft_lengths is None or wrong == "padding" else draft_lengths[b]
        rows = target_probs[b : b + 1, : n + 1]
        if is_greedy is not None and is_greedy[b] and wrong != "greedy":
            rows = np.eye(rows.shape[-1])[rows.argmax(axis=-1)]
        if n == 0:
            emitted[b, 0] = generator.choice(rows.shape[-1], p=rows[0, 0])
            continue
        one, accepted[b : b + 1] = TOKEN(tokens[b : b + 1, :n], draft_probs[b : b + 1, :n], rows, generator)
        emitted[b, : n + 1] = one[0]
    return emitted, accepted


@pytest.mark.parametrize(
    ("wrong", "status"), [("", Status.PASSED), ("padding", Status.FAILED), ("greedy", Status.FAILED)]
)
def test_mixed_batches_are_judged_where_they_are_taken(wrong, status):
    def function(tokens, draft_probs, target_probs, generator, *, draft_lengths=None, is_greedy=None):
        options = {"draft_lengths": draft_lengths, "is_greedy": is_greedy, "wrong": wrong}
        return mixed(tokens, draft_probs, target_probs, generator, **options)

    subject = Subject("mine", function=function)
    instance = panel(3, 3, 1, 0)["flat"]
    result = first_failure("batch", lambda: mixed_batch("batch", subject, instance, alpha=1e-9, seed=0))
    assert result.status is status
