"""Lines that no recorded call ran are named: nothing is known of what they do."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Evidence, SubjectReport, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.sampler import unexecuted_lines
from spec_oracle.audit.sampler.at_shapes import CallsAtShapes
from spec_oracle.audit.shapes.places import traced_at
from spec_oracle.audit.shapes.trees import Place, Shape
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import as_sampler
from spec_oracle.report.audit_text import audit_to_text
from tests.subjects import sampler

TOKEN = as_sampler(verifiers.get("token"))


def for_a_size(draft_tokens, draft_probs, target_probs, generator):
    """Lossless, unless V is that of GPT-2."""
    if target_probs.shape[-1] == 50_257:
        draft_probs = np.roll(
            draft_probs,
            1,
            axis=-1,
        )
        draft_probs *= 1
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


def for_nothing(draft_tokens, draft_probs, target_probs, generator):
    """Lossless; it refuses what no contract allows, and clears up."""
    if draft_tokens.ndim != 2:
        raise ValueError("expected two axes")

    kept = draft_probs.copy()

    def verified():
        return TOKEN(draft_tokens, draft_probs, target_probs, generator)

    def unused():
        return None

    try:
        found = verified()
    finally:
        draft_probs[...] = kept
    return found


def for_broken_input(draft_tokens, draft_probs, target_probs, generator):
    if not np.isfinite(target_probs).all():
        target_probs = np.nan_to_num(target_probs)
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


def for_a_toy(draft_tokens, draft_probs, target_probs, generator):
    if (target_probs[:, 0] == draft_probs[:, 0]).all():
        target_probs = target_probs.copy()
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


def in_threads(draft_tokens, draft_probs, target_probs, generator):
    def verified(_):
        doubled = 2 * target_probs
        return TOKEN(draft_tokens, draft_probs, doubled / 2, generator)

    with ThreadPoolExecutor(1) as pool:
        (found,) = pool.map(verified, range(1))
    return found


def for_seven_tokens(draft_tokens, draft_probs, target_probs, generator):
    if target_probs.shape[-1] == 7:
        target_probs = target_probs.copy()
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


def lines_of(function, first, last=""):
    """Return "file:first-last" of the lines of a function that hold two texts, or of one that holds one."""
    lines, start = inspect.getsourcelines(function)
    numbers = [
        start + next(number for number, line in enumerate(lines) if text in line)
        for text in filter(None, (first, last))
    ]
    return f"test_unexecuted_lines.py:{'-'.join(map(str, numbers))}"


def notes_on(function, check="", *, verdict=SubjectVerdict.LOSSLESS):
    """Return the notes of a report on a function of which a check was run, on nothing but toys without."""
    subject, context = sampler(function), Context()
    if check:
        result_of(check, subject, context)
    report = SubjectReport("mine", "sampler", verdict, Evidence.EXACT, (), 0.0)
    (found,) = unexecuted_lines.with_notes([unexecuted_lines.with_lines(report, subject, context)])
    return found.remarks.notes


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (for_a_size, lines_of(for_a_size, "np.roll", "*= 1")),
        (for_broken_input, lines_of(for_broken_input, "nan_to_num")),
        (for_nothing, lines_of(for_nothing, "return None")),
    ],
    ids=["waits for a size", "waits for broken input", "nobody calls it"],
)
def test_lines_that_did_not_run_are_named_except_raise_statements(function, place):
    (note,) = notes_on(function)
    assert note.startswith("not judged, because it was not seen to run: ")
    assert note.endswith(place)


@pytest.mark.parametrize(
    ("function", "check"), [(for_a_toy, ""), (for_broken_input, "bad-input"), (in_threads, "")]
)
def test_lines_that_ran_are_not_named(function, check):
    assert notes_on(function, check) == ()


def test_ordinary_calls_at_shapes_are_recorded():
    subject, context = sampler(for_seven_tokens), Context()
    shape = Shape(vocab_size=7, draft_length=1)
    traced_at(CallsAtShapes(subject, context).experiment(Place(shape, 0, subject.drafting)))
    assert set(subject.ran) == {__file__}
    assert unexecuted_lines.unrun(subject.ran) == []


def test_lossy_subjects_get_no_note():
    assert notes_on(for_a_size, "bad-input", verdict=SubjectVerdict.LOSSY) == ()


def test_of_many_places_a_few_are_named(monkeypatch):
    monkeypatch.setattr(unexecuted_lines, "unrun", lambda ran: [f"mine.py:{line}" for line in range(9)])
    (note,) = notes_on(for_a_toy)
    assert note.endswith("mine.py:0, mine.py:1, mine.py:2, mine.py:3 and 5 more")


def with_rows(draft_tokens, draft_probs, target_probs, generator):
    return by_branch(draft_tokens, draft_probs, target_probs, generator)


def without_rows(draft_tokens, draft_probs, target_probs, generator):
    return by_branch(draft_tokens, None, target_probs, generator)


def by_branch(draft_tokens, draft_probs, target_probs, generator):
    if draft_probs is None:
        vocab_size = target_probs.shape[2]
        draft_probs = np.eye(vocab_size)[draft_tokens]
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


@pytest.mark.parametrize("others", [[with_rows], [without_rows]], ids=["twice the same", "the other branch"])
def test_lines_of_one_file_that_ran_for_another_subject_are_not_named(others):
    """Lossless subjects with a note are shown among several, too."""
    options = AuditOptions(
        checks=(), budget=60.0, draft_length=1, skip={"bad-input": "as asked"}, shrink=False
    )
    shown = audit_to_text(audit(with_rows, *others, options=options))
    place = lines_of(by_branch, "vocab_size = ", "np.eye")
    assert shown.count(place) == (2 if others == [with_rows] else 0)
