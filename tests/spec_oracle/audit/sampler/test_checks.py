"""Checks of plain functions beyond the law of one call: what they find, when they stand back, what counts.

Every check that draws runs at the shares of 1e-6, with fixed seeds: what fails here once fails always.
"""

import re
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import verifiers
from lab.specimens.registry import specimens, survivors
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts, OnRecord
from spec_oracle.audit.experiment import run_guarded
from spec_oracle.audit.instances import panel
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import UNTRIED
from spec_oracle.audit.sampler.batch import mixed_batches
from spec_oracle.audit.sampler.scale import low_precision
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import SAMPLER, result_of
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.configuration import read_configuration
from tests.strategies import at_night, by_day
from tests.subjects import checks_of, sampler

STATEFUL = ("greedy_block", "greedy_multipath_carry", "block_transport")
TOKEN = as_sampler(verifiers.get("token"))
FEW = {"vocabularies": (3, 33), "lengths": (1, 2), "batches": (1, 3)}
"""Declared sizes: `shapes` tries these alone."""
SMALL = panel(3, 2, 1, 0)["flat"]


def audited(function, *checks, facts=NOTHING_DECLARED, num_paths=1, **options):
    """Return the report on a function and its checks by name."""
    chosen = AuditOptions(
        **{"draft_length": 2, "shrink": False, "budget": 20.0, "checks": checks or None} | options
    )
    report = audit(sampler(function, facts=facts, num_paths=num_paths), options=chosen)
    return report, checks_of(report.subjects[0])


def statuses(checks):
    """Return the names of checks by status."""
    return {status: {name for name, check in checks.items() if check.status is status} for status in Status}


def test_shares_hand_out_the_whole_rate_and_no_more():
    assert sum(check.share for check in CHECKS.values()) == 1
    without = {name for name, check in CHECKS.items() if check.share <= 0}
    assert without == {"logprobs", "model"}  # They compare numbers: chance plays no part.
    assert {type(check.share) for check in CHECKS.values()} == {Fraction}


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("sizes", [FEW, *at_night({})], ids=len)
def test_a_right_function_passes_every_check(sizes):
    report, checks = audited(TOKEN, facts=Facts(rule_at=lambda _: "token"), **sizes)
    assert list(checks) == [*SAMPLER]
    assert statuses(checks)[Status.PASSED] == {*checks}
    assert report.exit_code == 0


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    ("name", "check"), [("overlapping-uniforms", "batch"), *at_night(("fixed-seed", "calls"))]
)
def test_dependence_between_calls_or_requests_is_lossy_by_draws(name, check):
    report, checks = audited(specimens()[name].function, check)
    (found,) = report.subjects
    assert checks["joint"].status is Status.PASSED
    assert checks[check].status is Status.FAILED
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSY, Evidence.STATISTICAL)
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("residual-in-callers-memory", "inputs-kept"),
        ("zero-uniform-accepts", "bad-input"),
        ("fixed-seed", "streams"),
    ],
)
def test_faults_other_than_of_the_distribution_leave_the_verdict(name, check):
    report, checks = audited(specimens()[name].function, check)
    assert checks[check].status is Status.FAILED
    assert report.subjects[0].verdict is SubjectVerdict.LOSSLESS
    assert report.exit_code == 2


def test_a_law_that_is_wrong_at_scale_is_not_lossless():
    report, checks = audited(specimens()["last-tile-lost"].function, "scale")
    assert checks["joint"].status is Status.PASSED
    assert report.subjects[0].verdict is SubjectVerdict.LOSSY
    assert report.exit_code == 1


@pytest.mark.usefixtures("full_effort")
def test_a_failure_in_a_type_that_does_not_count_is_a_note():
    subject = sampler(survivors()["sums-in-the-rows-type"].function)
    result, counted = (
        result_of("scale", subject, Context(shapes=limits))
        for limits in (ShapeLimits(), ShapeLimits(("float16",)))
    )
    assert result.status is Status.PASSED
    (note,) = result.remarks.notes
    assert note.startswith("not for float16 rows: ")
    assert counted.status is Status.FAILED


def test_a_failure_on_record_is_shown_and_does_not_fail_the_run():
    known = Facts(failures=OnRecord({"bad-input": "a page"}))
    report, checks = audited(specimens()["zero-uniform-accepts"].function, "bad-input", facts=known)
    assert checks["bad-input"].status is Status.FAILED
    assert checks["bad-input"].known == "a page"
    assert report.exit_code == 0


def test_a_failure_on_record_that_is_mended_is_reported():
    report, checks = audited(TOKEN, "bad-input", facts=Facts(failures=OnRecord({"bad-input": "a page"})))
    assert (checks["bad-input"].status, checks["bad-input"].known) == (Status.PASSED, "a page")
    assert report.exit_code == 2


def uniform_fallback(tokens, draft, target, generator):
    """The token rule, which draws from the uniform distribution where no residual is left."""
    found, num_accepted = np.full((len(tokens), tokens.shape[1] + 1), -1), np.zeros(len(tokens), np.int64)
    for b, drafted in enumerate(tokens):
        row = target[b, -1]
        for i, token in enumerate(drafted):
            ratio = target[b, i, token] / draft[b, i, token] if draft[b, i, token] > 0 else 0.0
            if generator.random() >= ratio:
                row = np.maximum(target[b, i] - draft[b, i], 0)
                break
            num_accepted[b] += 1
        row = row / row.sum() if row.sum() > 0 else np.full(len(row), 1 / len(row))
        found[b, : num_accepted[b]] = drafted[: num_accepted[b]]
        found[b, num_accepted[b]] = generator.choice(len(row), p=row)
    return found, num_accepted


def test_a_failure_on_broken_input_says_what_to_write_down_to_accept_it(tmp_path):
    subject = SamplerSubject("token", SamplerCode(uniform_fallback))  # a configuration takes known names only
    chosen = AuditOptions(draft_length=2, shrink=False, checks=("bad-input",))
    (found,) = (report := audit(subject, options=chosen)).subjects
    (do,) = (check.remarks.do for check in found.checks if check.name == "bad-input")
    assert (found.verdict, report.exit_code) == (SubjectVerdict.LOSSLESS, 2)
    assert do.startswith("if no caller passes NaN draft probabilities, add --skip bad-input, or write into ")
    file, lines = tmp_path / "pyproject.toml", do.partition("pyproject.toml, below ")[2]
    file.write_text("[tool.spec-oracle]\n" + lines.replace(": ", "\n", 1))
    accepted = replace(chosen, expected=read_configuration(file).options_of("token").expected)
    assert audit(subject, options=accepted).exit_code == 0


def test_a_failure_on_valid_input_is_not_to_be_accepted():
    _, checks = audited(specimens()["zero-uniform-accepts"].function, "bad-input")
    assert (checks["bad-input"].status, checks["bad-input"].remarks.do) == (Status.FAILED, "")


def test_a_lossy_function_is_not_compared_with_laws_again():
    _, checks = audited(specimens()["always-accept"].function)
    assert checks["joint"].status is Status.FAILED
    assert statuses(checks)[Status.SKIPPED] == {"shapes", "length", "calls", "streams", "batch", "scale"}


@pytest.mark.parametrize(
    "name",
    by_day([n for n in verifiers.names() if n not in STATEFUL], ["token", "block", "canonical", "traversal"]),
)
def test_built_in_rules_answer_broken_input_inside_the_support(name):
    for paths in (1, 2):
        subject = SamplerSubject(name, SamplerCode(as_sampler(verifiers.get(name))), num_paths=paths)
        result = result_of("bad-input", subject, Context(seed=paths))
        assert result.status is Status.PASSED, result.detail


def test_a_slow_function_skips_what_its_budget_does_not_allow():
    def slow(*arguments):
        time.sleep(0.01)
        return TOKEN(*arguments)

    report, checks = audited(slow, "inputs-kept", "scale", budget=1.0, draft_length=1)
    assert report.exit_code == 2
    assert checks["inputs-kept"].status is Status.PASSED
    assert checks["scale"].status is Status.NOT_RUN
    assert re.fullmatch(r"--budget \d+", checks["scale"].remarks.do)
    assert "raise --budget" in checks["scale"].detail


@pytest.mark.usefixtures("less_effort")
def test_samplers_of_several_paths_run_every_check():
    function = as_sampler(verifiers.get("recursive_rejection"))
    sizes = {"vocabularies": (3,), "lengths": (1,), "batches": (2,), "paths": (2,)}
    report, checks = audited(function, num_paths=2, draft_length=1, budget=60.0, **sizes)
    assert not [name for name, check in checks.items() if check.status in UNTRIED]
    assert report.subjects[0].rule == "recursive_rejection"
    assert report.exit_code == 0


def test_on_instances_of_the_user_only_the_law_is_judged():
    report, checks = audited(TOKEN, instances={"mine": SMALL})
    assert statuses(checks)[Status.PASSED] == {"joint", "length"}
    assert statuses(checks)[Status.NOT_RUN] == set()
    assert report.exit_code == 0


@pytest.mark.usefixtures("less_effort")
def test_types_that_a_function_refuses_are_named():
    def double_only(tokens, draft_probs, target_probs, generator):
        if target_probs.dtype != np.float64:
            raise TypeError("float64 only")
        return TOKEN(tokens, draft_probs, target_probs, generator)

    found = low_precision(sampler(double_only), SMALL, Context(), 1e-8)
    assert "float32 refused (raised TypeError: float64 only (at" in found.detail
    report, checks = audited(double_only, "scale")
    assert checks["scale"].status is Status.PASSED  # the other parts count
    assert report.exit_code == 0


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


@pytest.mark.parametrize(("batches", "status"), [((), Status.PASSED), ((1,), Status.NOT_APPLICABLE)])
def test_code_for_one_request_at_a_time_has_no_batches_to_judge(batches, status):
    report, checks = audited(TOKEN, "batch", batches=batches)
    assert (report.exit_code, checks["batch"].status) == (0, status)


@pytest.mark.parametrize(
    ("wrong", "status"), [("", Status.PASSED), ("padding", Status.FAILED), ("greedy", Status.FAILED)]
)
def test_mixed_batches_are_judged_where_they_are_taken(wrong, status):
    def function(tokens, draft_probs, target_probs, generator, *, draft_lengths=None, is_greedy=None):
        options = {"draft_lengths": draft_lengths, "is_greedy": is_greedy, "wrong": wrong}
        return mixed(tokens, draft_probs, target_probs, generator, **options)

    instance = panel(3, 3, 1, 0)["flat"]
    subject = sampler(function)
    result = run_guarded(lambda: mixed_batches(subject, Context(), 1e-9, instance=instance))
    assert result.status is status


@pytest.mark.parametrize(
    "check", ["length", "calls", "streams", "batch", "bad-input", "inputs-kept", "scale"]
)
def test_no_check_takes_more_requests_than_the_budget_allows(check):
    subject = sampler(TOKEN, facts=Facts(rule_at=lambda _: "token"))
    for requests, statuses in ((20_000, {Status.PASSED}), (1_000, {Status.PASSED, Status.NOT_RUN})):
        vars(subject)["_pace"] = {0: float(requests)}
        result = result_of(check, subject, Context(budget=1.0))
        assert result.status in statuses, result.detail
        assert (result.status is Status.PASSED) == (0 < result.measured.draws <= requests)


@pytest.mark.parametrize("options", [{"checks": ("scael",)}, {"skip": ("scael",)}, {"array": "pytorch"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInputError, match="scael|pytorch"):
        AuditOptions(**options)


def test_skipped_checks_are_listed_and_do_not_fail_the_run():
    skip = {"scale": "", "streams": "no seeds"}
    report, checks = audited(TOKEN, "inputs-kept", *skip, skip=skip)
    assert statuses(checks)[Status.PASSED] == {"joint", "inputs-kept"}
    assert statuses(checks)[Status.SKIPPED] >= {"scale", "streams"}
    assert report.exit_code == 0
