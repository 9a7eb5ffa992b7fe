"""Lines that no recorded call ran are named: nothing is known of what they do."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectReport, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.reports import AuditedCode
from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.audit.sampler import unexecuted_lines
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.report.audit_text import audit_to_text
from tests.spec_oracle.audit.sampler import waiting

JOINT = CheckResult("joint", Status.PASSED, "every outcome traced", how=How.PROVEN)


def lines_of(function, text):
    """Return the line of a function that holds a text, in its file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def notes_on(function, *, bad_input=True):
    """Return the notes of the report on a function whose distribution of one call was proven."""
    subject, context = SamplerSubject("mine", SamplerCode(function)), Context(results={"joint": JOINT})
    if bad_input:
        result_of("bad-input", subject, context)
    return with_lines(subject, context).remarks.notes


def with_lines(subject, context):
    report = SubjectReport("mine", "sampler", SubjectVerdict.LOSSLESS, Evidence.EXACT, (), 0.0)
    ran = AuditedCode(lines=unexecuted_lines.lines_run(subject, context))
    (found,) = unexecuted_lines.with_notes([replace(report, code=ran)])
    return found


def test_lines_that_wait_for_a_size_are_named():
    (note,) = notes_on(waiting.for_a_size)
    first, last = (lines_of(waiting.for_a_size, text) for text in ("np.roll", "*= 1"))
    assert note.startswith("not judged, because it was not seen to run: ")
    assert note.endswith(f"waiting.py:{first}-{last}")


def test_what_raises_is_not_named_but_functions_that_nobody_calls_are():
    (note,) = notes_on(waiting.for_nothing)
    assert note.endswith(f"waiting.py:{lines_of(waiting.for_nothing, 'return None')}")


def rare(draft_tokens, draft_probs, target_probs, generator):
    if (target_probs[:, 0] == draft_probs[:, 0]).all():
        target_probs = target_probs.copy()
    return waiting.TOKEN(draft_tokens, draft_probs, target_probs, generator)


@pytest.mark.parametrize("how", [How.PROVEN, How.SAMPLED])
def test_lines_that_only_toys_run_are_looked_for(how, monkeypatch):
    """By ordinary calls where code cannot be traced."""
    monkeypatch.setattr(f"{__name__}.JOINT", CheckResult("joint", Status.PASSED, "", how=how))
    assert notes_on(rare) == ()


def test_of_many_places_a_few_are_named(monkeypatch):
    monkeypatch.setattr(unexecuted_lines, "unrun", lambda ran: [f"mine.py:{line}" for line in range(9)])
    (note,) = with_lines(SamplerSubject("mine", SamplerCode(rare)), Context()).remarks.notes
    assert note.endswith("mine.py:0, mine.py:1, mine.py:2, mine.py:3 and 5 more")


def accepts_anything(draft_tokens, draft_probs, target_probs, generator):
    """Emit the draft whatever the target says, so that bad-input fails; right where they are alike."""
    if draft_tokens.shape[1] > 40:
        draft_tokens = draft_tokens * 0
    tokens = np.pad(draft_tokens, ((0, 0), (0, 1)))
    return tokens, np.full(len(tokens), draft_tokens.shape[1])


def only_broken_input(draft_tokens, draft_probs, target_probs, generator):
    if not np.isfinite(target_probs).all():
        target_probs = np.nan_to_num(target_probs)
    return waiting.TOKEN(draft_tokens, draft_probs, target_probs, generator)


def test_lines_are_named_where_bad_input_fails():
    subject, context = SamplerSubject("mine", SamplerCode(accepts_anything)), Context()
    assert result_of("bad-input", subject, context).status is Status.FAILED
    (note,) = with_lines(subject, context).remarks.notes
    assert note.endswith(f"test_unexecuted_lines.py:{lines_of(accepts_anything, '* 0')}")


@pytest.mark.parametrize("bad_input", [True, False])
def test_lines_that_only_broken_input_reaches_are_named_unless_it_was_tried(bad_input):
    notes = notes_on(only_broken_input, bad_input=bad_input)
    place = f"test_unexecuted_lines.py:{lines_of(only_broken_input, 'nan_to_num')}"
    assert [note.endswith(place) for note in notes] == ([] if bad_input else [True])


def with_rows(draft_tokens, draft_probs, target_probs, generator):
    return by_branch(draft_tokens, draft_probs, target_probs, generator)


def without_rows(draft_tokens, draft_probs, target_probs, generator):
    return by_branch(draft_tokens, None, target_probs, generator)


def by_branch(draft_tokens, draft_probs, target_probs, generator):
    if draft_probs is None:
        vocab_size = target_probs.shape[2]
        draft_probs = np.eye(vocab_size)[draft_tokens]
    else:
        draft_probs = draft_probs + 0.0
    return waiting.TOKEN(draft_tokens, draft_probs, target_probs, generator)


OPTIONS = AuditOptions(checks=(), budget=60.0, draft_length=1, skip={"bad-input": "as asked"}, shrink=False)


@pytest.mark.parametrize("subjects", [[with_rows], [without_rows], [with_rows, without_rows]], ids=len)
def test_lines_that_another_subject_of_the_run_ran_are_not_named(subjects):
    report = audit(*subjects, options=OPTIONS)
    notes = [note for subject in report.subjects for note in subject.remarks.notes]
    assert len(notes) == (len(subjects) == 1)
    assert all(note.startswith(unexecuted_lines.NOT_JUDGED) for note in notes)


def test_notes_of_lossless_subjects_are_shown_among_several():
    report = audit(with_rows, with_rows, options=OPTIONS)
    line = lines_of(by_branch, "np.eye")
    assert audit_to_text(report).count(f"test_unexecuted_lines.py:{line - 1}-{line}") == 2
