"""A report is read from the top: verdict, failures with their place and command, what to do, what passed."""

import re
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, CheckResult, How, Status, SubjectVerdict, audit
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.reports import AuditedCode, AuditReport, Counterexample, Evidence, SubjectReport
from spec_oracle.audit.results import Cause, Measured, Remarks
from spec_oracle.exact import Gap
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.report.audit_text import audit_cells, audit_table, audit_to_text, counterexample_lines
from spec_oracle.report.reading import (
    evidence_word,
    finding,
    headline,
    open_checks,
    total_variation_text,
)
from spec_oracle.report.what_to_do import _LOOK_AT, command_for, first_wrong_token, next_steps, what_to_do
from spec_oracle.toy import Instance

PLACE = "sampler.py:8"
ASKED = "`spec-oracle explain inputs-kept` says what is asked"
ACCEPTS = "look at how a draft is accepted, and what is sampled after a rejection"
JOINT = CheckResult("joint", Status.PASSED, "no difference on 8 toy instances; more", How.PROVEN)


def one(*checks, verdict=SubjectVerdict.LOSSLESS, **more):
    """Return a subject whose checks are `joint`, unless given, and others."""
    found = checks if any(check.name == "joint" for check in checks) else (JOINT, *checks)
    given = {"kind": "sampler", "evidence": Evidence.EXACT, "code": AuditedCode(place=PLACE)} | more
    return SubjectReport("mine:verify", verdict=verdict, checks=found, alpha=1e-7, **given)


def report_of(*subjects, command="spec-oracle audit mine:verify"):
    return AuditReport(subjects, seed=0, alpha=1e-6, command=command)


def failed(name, detail="it is wrong", **more):
    return CheckResult(name, Status.FAILED, detail, How.SAMPLED, **more)


def undecided(detail, name="shapes", **more):
    return CheckResult(name, Status.INCONCLUSIVE, detail, How.SAMPLED, **more)


BAD_INPUT = failed("bad-input", "NaN rows: token 0 is emitted", remarks=Remarks(do="add --skip bad-input"))


def test_headlines_state_verdict_and_reach():
    none = "; no difference on 8 toy instances"
    assert headline(one()) == f"mine:verify: lossless{none}"
    assert headline(one(BAD_INPUT)) == f"mine:verify: lossless, but bad-input failed{none}"
    assert headline(one(undecided("few"))) == f"mine:verify: lossless, but shapes not decided{none}"
    assert headline(one(failed("batch"), verdict=SubjectVerdict.LOSSY)) == "mine:verify: lossy (proven)"
    broken = one(failed("joint", cause=Cause.BROKEN_CONTRACT), verdict=SubjectVerdict.BROKEN)
    assert headline(broken).startswith("mine:verify: broken: it does not keep its contract")
    open_ = one(undecided("few", "joint"), verdict=SubjectVerdict.INCONCLUSIVE)
    assert headline(open_) == "mine:verify: inconclusive: joint not decided"


def test_a_completion_that_was_judged_says_how_far():
    far = replace(JOINT, measured=Measured(tokens=4, detectable=2e-6))
    assert "completions of up to 4 tokens was run" in headline(one(far, kind="engine"))
    assert "completions of up to 4 tokens was run" in AUDIT_FORMATS["markdown"](report_of(one(far)))
    assert evidence_word(one(far)) == "proven to 4 tokens"


def test_completions_that_were_sampled_whole_are_not_said_to_be_judged_token_by_token():
    whole = CheckResult("calls", Status.PASSED, "", How.SAMPLED, Measured(tokens=4, detectable=0.1))
    said = headline(one(whole, kind="engine"))
    assert "completions of up to 4 tokens were sampled (a total variation of 0.1 would show)" in said
    assert audit_cells(one(whole))[5] == "0.1"
    each = one(replace(whole, name="long-texts"))
    assert "judged one by one (a total variation of 0.1 a token between ten bins by p" in headline(each)
    assert audit_cells(each)[5] == "0.1 a token"


@pytest.mark.parametrize(
    ("evidence", "how", "word"),
    [
        (Evidence.EXACT, How.PROVEN, "proven"),
        (Evidence.EXACT, How.REPRESENTED, "represented"),
        (Evidence.REPLAYED, How.REPLAYED, "replayed"),
        (Evidence.STATISTICAL, How.SAMPLED, "sampled"),
        (Evidence.NONE, None, "-"),
    ],
)
def test_evidence_has_the_words_of_checks(evidence, how, word):
    assert evidence_word(one(replace(JOINT, how=how), evidence=evidence)) == word


def test_failures_of_the_distribution_come_before_open_checks():
    checks = (undecided("few"), BAD_INPUT, failed("batch"), replace(BAD_INPUT, known="issue 7"))
    assert [check.name for check in open_checks(one(*checks))] == ["batch", "bad-input", "shapes"]


def test_the_table_shows_the_total_variation_of_failed_and_open_checks():
    def row(*checks, **more):
        head, (cells,) = audit_table(report_of(one(*checks, total_variation=1e-17, **more)))
        return dict(zip(head, cells, strict=True))

    assert row()["TV"] == "1e-17"
    assert "open" not in row()
    sampled = row(failed("calls", measured=Measured(alpha=1e-7, total_variation=0.12)))
    assert (sampled["TV"], sampled["open"]) == (">= 0.12", "calls failed")
    proven = replace(failed("shapes", measured=Measured(total_variation=0.25)), how=How.PROVEN)
    assert row(proven, BAD_INPUT) | {"evidence": ""} == row(proven, BAD_INPUT) | {
        "TV": "0.25",
        "evidence": "",
    }
    assert row(proven, BAD_INPUT)["open"] == "shapes failed +1"
    assert "TV" not in row(failed("batch"))  # it is not known
    assert row(BAD_INPUT)["open"] == "bad-input failed"
    assert row(undecided("few"))["open"] == "shapes not decided"


def test_a_failure_has_its_place_its_command_and_lines_of_what_to_do():
    lines = audit_to_text(
        report_of(one(failed("inputs-kept", "target_probs changed"), BAD_INPUT))
    ).splitlines()
    assert lines[1:9] == [
        "  ✗ inputs-kept  target_probs changed",
        f"      in: {PLACE}",
        "      reproduce: spec-oracle audit mine:verify --check inputs-kept",
        "  ✗ bad-input    NaN rows: token 0 is emitted",
        f"      in: {PLACE}",
        "      reproduce: spec-oracle audit mine:verify --check bad-input",
        f"  do: look at what it changes: copy that first ({PLACE}); {ASKED}",
        "  do: add --skip bad-input",
    ]
    assert lines[9] == "  ✓ passed: joint (proven)"


@pytest.mark.parametrize(
    ("check", "command", "does"),
    [
        (BAD_INPUT, "", "add --skip bad-input"),
        (
            undecided("V 257 (--budget 140 should do); exact at 6", remarks=Remarks(do="--budget 140")),
            "",
            "spec-oracle audit mine:verify --budget 140",
        ),
        (
            undecided("V 257 (--budget 140 should do)", remarks=Remarks(do="--budget 140")),
            "spec-oracle audit a b mine:verify --array torch --budget 5 --report x.html",
            "spec-oracle audit mine:verify --array torch --budget 140",
        ),
        (undecided("too slow; raise --budget"), "", "spec-oracle audit mine:verify --budget 240"),
        (
            undecided("too slow", remarks=Remarks(do="--budget 90")),
            "",
            "spec-oracle audit mine:verify --budget 90",
        ),
        (
            undecided("layout sliced: raised RuntimeError: no", remarks=Remarks(do="--only layouts=a,b")),
            "",
            "if it is so: spec-oracle audit mine:verify --only layouts=a,b",
        ),
        (
            undecided("layout sliced: raised RuntimeError: no", remarks=Remarks(do="--only layouts=a")),
            "spec-oracle audit mine:verify --only paths=2 --only layouts=a,b --seed 1",
            "if it is so: spec-oracle audit mine:verify --only paths=2 --seed 1 --only layouts=a",
        ),
        (
            undecided("it does not show whether it drafts", remarks=Remarks(do="--assume-speculating")),
            "",
            "if it is so: spec-oracle audit mine:verify --assume-speculating",
        ),
        (
            undecided("still running after 900 s", "calls", remarks=Remarks(do="--timeout 3600")),
            "spec-oracle audit mine:verify --timeout 900 --jobs 1",
            "spec-oracle audit mine:verify --jobs 1 --timeout 3600",
        ),
        (
            undecided("3 a second", remarks=Remarks(do="--budget 2000")),
            "spec-oracle audit mine:verify --budget 60 --timeout 900",
            "spec-oracle audit mine:verify --budget 2000 --timeout 8000",
        ),
        (
            undecided("30 a second", remarks=Remarks(do="--budget 450")),
            "",
            "spec-oracle audit mine:verify --budget 450",
        ),
        (
            failed("joint", remarks=Remarks(do="to admit it, write at-most = 0.21")),
            "",
            f"{ACCEPTS} ({PLACE}); to admit it, write at-most = 0.21",
        ),
        (
            replace(JOINT, name="scale", known="issue 8"),
            "",
            "remove scale from expected-failures",
        ),
    ],
)
def test_the_do_line_names_the_next_step(check, command, does):
    assert what_to_do(one(check), command) == does


def test_a_sampled_defect_without_a_bound_has_no_total_variation():
    wrong = one(failed("joint"), verdict=SubjectVerdict.LOSSY, total_variation=0.0)
    assert total_variation_text(wrong) == "-"
    assert total_variation_text(replace(wrong, total_variation=0.25)) == "0.25"


def test_a_broken_contract_has_a_do_line_and_a_pass_has_none():
    broken = one(failed("joint", cause=Cause.BROKEN_CONTRACT), verdict=SubjectVerdict.BROKEN)
    assert "`spec-oracle init mine:verify` write an adapter" in what_to_do(broken)
    adapted = replace(broken, subject="mine_adapter:verify")
    assert what_to_do(adapted).endswith("(if it takes several paths, add --num-paths K)")
    assert "if it takes several paths, add --num-paths K" in what_to_do(broken)
    assert what_to_do(replace(broken, kind="engine")).startswith("return what the contract asks for")
    assert what_to_do(replace(broken, kind="rule")).startswith("do what the contract asks for")
    raised = replace(broken, checks=(replace(broken.checks[0], detail="raised ValueError: no (at a.py:1)"),))
    assert what_to_do(raised).startswith("mend what raises, or how it is called (if it takes")
    assert what_to_do(one()) == ""
    assert "do:" not in audit_to_text(report_of(one()))


def test_the_do_line_is_of_the_undecided_check_before_failures_of_others():
    few = undecided("too few", "joint", remarks=Remarks(do="--budget 90"))
    open_ = one(few, BAD_INPUT, verdict=SubjectVerdict.INCONCLUSIVE)
    assert what_to_do(open_) == "spec-oracle audit mine:verify --budget 90"


SLOW = undecided("too slow", remarks=Remarks(do="--budget 90"))
LONGER = "spec-oracle audit mine:verify --budget 90"


def test_every_open_check_has_its_step():
    assert next_steps(one(BAD_INPUT, SLOW)) == ["add --skip bad-input", LONGER]
    assert next_steps(one(failed("batch"), SLOW))[1:] == [LONGER]
    first = undecided("few", "joint", remarks=Remarks(do="--budget 90"))
    steps = next_steps(one(first, SLOW, BAD_INPUT, verdict=SubjectVerdict.INCONCLUSIVE))
    assert steps == [LONGER, "add --skip bad-input"]
    assert next_steps(one()) == []
    raised = undecided("the code raised at 7 input shapes: raised ValueError: no")
    (first, second) = next_steps(one(BAD_INPUT, raised))
    assert first == "add --skip bad-input"
    assert second.startswith("look at what depends on that size or form")
    assert next_steps(one(raised)) == [what_to_do(one(raised))]


def test_the_exception_that_ended_a_check_is_to_be_mended():
    raised = undecided("raised ValueError: longer than 12 (at engine.py:142)")
    assert what_to_do(one(raised)).startswith("mend what raises, or how it is called; `spec-oracle explain ")


def test_the_other_steps_of_a_lossy_subject_wait_for_the_first():
    subject = one(failed("batch"), BAD_INPUT, SLOW, verdict=SubjectVerdict.LOSSY)
    assert next_steps(subject) == [what_to_do(subject)]


@pytest.mark.parametrize("form", ["text", "markdown", "html", "github", "junit"])
def test_every_form_shows_every_step(form):
    shown = AUDIT_FORMATS[form](report_of(one(BAD_INPUT, SLOW)))
    assert "--skip bad-input" in shown
    assert LONGER in re.sub("<[^>]*>", "", shown)


def test_every_check_of_samplers_has_something_to_look_at():
    of_others = {"plain-law", "model", "long-texts"}
    assert CHECKS.keys() - of_others <= _LOOK_AT.keys()


def test_a_command_is_of_one_subject_and_keeps_options():
    words = "spec-oracle audit other:f --quick --check joint --format html"
    assert (
        command_for(one(), words, ["--check", "batch"])
        == "spec-oracle audit mine:verify --quick --check batch"
    )


def replace_in(found, **changes):
    return SimpleNamespace(**{**vars(found), **changes})


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_the_first_wrong_token_is_the_first_with_a_wrong_probability(wrong):
    """Masses that move between texts that are alike up to there."""
    instance = Instance.context_free(["1/2", "1/2"], ["1/2", "1/2"], draft_length=2)
    actual = np.full((2, 2, 2), 1 / 8)
    less, more = [0, 0, 0], [0, 0, 0]
    more[wrong] = 1
    actual[tuple(less)] -= 0.1
    actual[tuple(more)] += 0.1
    found = SimpleNamespace(instance=instance, actual=tuple(actual.ravel()), total_variation=0.1, samples=0)
    assert first_wrong_token(found) == wrong
    assert first_wrong_token(replace_in(found, samples=10_000)) == wrong
    assert first_wrong_token(replace_in(found, samples=20)) is None


def test_noise_of_samples_is_no_wrong_first_token():
    instance = Instance.context_free(["1/2", "1/2"], ["1/2", "1/2"], draft_length=1)
    actual = (0.31, 0.2, 0.3, 0.19)  # the first token is off by 1 %, the second one by 12 %
    found = SimpleNamespace(instance=instance, actual=actual, total_variation=0.12, samples=1_000)
    assert first_wrong_token(found) == 1
    assert first_wrong_token(replace_in(found, samples=0)) == 0


def test_the_line_of_a_summary_is_the_finding():
    assert finding(one(BAD_INPUT)) == "mine:verify: lossless: bad-input failed: NaN rows: token 0 is emitted"
    assert finding(one()) == ""


def one_uniform(draft_tokens, draft_probs, target_probs, generator):
    """One random number decides all positions."""
    batch, length = draft_tokens.shape
    tokens, num_accepted = np.full((batch, length + 1), -1), np.zeros(batch, dtype=int)
    for b in range(batch):
        uniform, row = generator.random(), target_probs[b, length]
        for i, token in enumerate(draft_tokens[b]):
            if uniform * draft_probs[b, i, token] >= target_probs[b, i, token]:
                row = np.maximum(target_probs[b, i] - draft_probs[b, i], 0)
                break
            tokens[b, i] = token
            num_accepted[b] += 1
        tokens[b, num_accepted[b]] = generator.choice(len(row), p=row / row.sum())
    return tokens, num_accepted


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    """A report on one lossy sampler and one right rule, the right one first."""
    folder = tmp_path_factory.mktemp("saved")
    options = AuditOptions(
        vocab_size=2,
        draft_length=2,
        checks=("bad-input", "inputs-kept"),
        counterexamples=folder,
        shrink=False,
    )
    return audit("token", one_uniform, options=options)


ORDER = (
    "lossy (proven)",
    "total variation 0",
    "test_reading.py:",
    "reproduce: ",
    "look at position 1",
    "passed: ",
)


@pytest.mark.parametrize("form", ["text", "markdown", "github"])
def test_every_form_begins_with_the_failure(lossy, form):
    text = AUDIT_FORMATS[form](lossy)
    places = [text.index(words) for words in ORDER[:-1]]
    assert places == sorted(places)
    assert max(places) < text.index("tokens/call")
    if form == "text":
        first = "\n".join(text.splitlines()[:24])
        assert all(words in first for words in ORDER[:-1])


def test_html_begins_with_the_failure(lossy):
    """Before the first failure a telephone shows a title, a sentence and a heading."""
    page = re.sub(r"<br>|<meta[^>]*>", "", AUDIT_FORMATS["html"](lossy).partition("<body>")[2][:-16])
    body = ET.fromstring(f"<b>{page}</b>")
    before, first = body.findall("./p"), body.find("./section")
    assert [element.tag for element in list(body)[:3]] == ["h1", "p", "section"]
    assert len(before[0].findtext("strong")) < 200
    told = " ".join("".join(first.itertext()).split())
    places = [told.index(words) for words in ORDER]
    assert places == sorted(places)
    assert [element.tag for element in list(first)[:2]] == ["h2", "div"]
    assert first[1].get("class") == "finding"
    (steps,) = (element for element in first if element.tag == "ul")
    assert "".join(steps[0].itertext()).startswith("do: look at position 1")


def test_probabilities_that_differ_are_told_apart():
    """A residual with a floor of 1e-5 a token moves so little."""
    gap = Gap((0, 1), Fraction(2, 3), 2 / 3 + 1.3e-5)
    found = Counterexample(None, gap, 2.6e-5, (), None, "spec-oracle audit mine:verify")
    assert counterexample_lines(found)[0][0] == "tokens 0,1: probability 2/3 expected, 0.66668 found"
