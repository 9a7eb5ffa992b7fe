"""Engines with a path of their own are killed by the checks they name, and right ones are never lossy."""

import itertools

import numpy as np
import pytest

from lab.specimens.call_patterns import ForbiddenDropped, without_repeats
from lab.specimens.catalogue import catalogue
from lab.specimens.registry import specimens
from lab.specimens.table_engine import DRAFT, TableEngine
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.tracer import completions_of, traced
from spec_oracle.audit.results import How, Status
from spec_oracle.audit.subjects import is_engine, of_engines
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts.engine import EngineCode
from tests.efforts import set_effort
from tests.strategies import by_day

pytestmark = pytest.mark.usefixtures("work_clock")

SECONDS = {
    "corner-every-64th-token-of-a-completion": 600.0,
    "ragged-cache": 8.0,
    "conversation-chunk-of-a-prompt-keeps-drafts": 4.0,
    **dict.fromkeys(
        ("pattern-two-full", "corner-five-together", "third-of-a-batch-drafts-alone"),
        4.0,
    ),
}
"""Budgets other than `ENOUGH`: for 150 long completions, and for what shows in late calls or batches."""

ENOUGH = 1.0
"""Seconds of work in which the other defects are found."""

OF_NIGHT = (
    *("pattern-two-full", "third-draft-untested", "corner-five-together"),
    *("corner-every-64th-token-of-a-completion", "third-of-a-batch-drafts-alone"),
)
"""Defects of ours that take longest; the same checks find others of their kind by day."""

JUDGED_ELSEWHERE = (
    *("session-appends-behind-pending", "session-rewind-leaves-pending"),
    *("acceptance-drifts", "one-block-of-64-tokens"),
    *("conversation-ring-read-from-its-first-place", "conversation-long-text-is-not-cut"),
    "batch-keeps-what-was-not-emitted",
)
"""Specimens that tests of turns, of long texts and of conversations find, by a part of the same check."""


def is_ours(found):
    """Whether a specimen is of the module under test, by the class of what it makes."""
    if found.kind != "engine" or found.name.startswith("cached-"):
        return False
    return all(isinstance(one, TableEngine) for one in found.engine().values())


ALL = {name: found for name, found in specimens().items() if is_ours(found)}
DEFECTS = [
    (name, check)
    for name, found in ALL.items()
    for check in found.detected_by
    if name not in JUDGED_ELSEWHERE
]
CONTROLS = [name for name, found in ALL.items() if found.is_control]
OF_BATCHES = [name for name in CONTROLS if "batch" in name or "draw" in name or "ahead" in name]
ROUNDED = [name for name in CONTROLS if "rounded" in name and name != "rounded-by-ten-times-as-much"]
"""Controls of a kind of which one, by day, stands for all."""
FAMILIES = (
    *("corner-", "conversation-", "session-", "blocks-of-", "window-of-", "recurrent-six-"),
    *("verifies-", "draws-secrets", "accepts-all-", "pattern-certain", "pattern-stops", "pattern-yields"),
    *("pattern-grammar-masks", "pattern-drafts-at-first", "pattern-drafts-three-calls", "rounded-by-ten"),
)
"""Controls that other tests audit by day, and variants of controls that are audited here by day."""
UNSEEN = [name for name in CONTROLS if "draw" in name or "verifies" in name or "watched" in name]


def outcome(name, check, budget):
    return result_of(check, of_engines(name, ALL[name].engine()), Context(rate=1e-8, budget=budget))


def test_specimens_of_engines_are_defects_and_controls():
    reported = {number for number, entry in catalogue().items() if entry.origin != "ours"}
    assert not reported & {ALL[name].catalogue_id for name in OF_NIGHT}
    assert len(DEFECTS) >= 12
    assert len(CONTROLS) >= 8
    assert all(is_engine(one) for found in ALL.values() for one in found.engine().values())


@pytest.mark.parametrize(
    ("name", "check"), by_day(DEFECTS, [case for case in DEFECTS if case[0] not in OF_NIGHT])
)
def test_a_defect_is_killed(name, check, monkeypatch):
    if "64th" in name:  # five places of a completion
        set_effort(monkeypatch, ENGINE_LONG_COUNT=150)
    # A defect of every call after a pattern shows after one history as after three.
    set_effort(monkeypatch, ENGINE_HISTORIES=1, ENGINE_ALIKE=8)
    assert outcome(name, check, SECONDS.get(name, ENOUGH)).status is Status.FAILED


@pytest.mark.parametrize(
    ("name", "check"),
    by_day(
        [*itertools.product(CONTROLS, ("joint", "calls", "batch"))],
        [
            *((name, "calls") for name in CONTROLS if not name.startswith(FAMILIES) and name not in ROUNDED),
            *((name, "batch") for name in OF_BATCHES if not name.startswith(FAMILIES)),
        ],
    ),
)
def test_a_right_engine_is_never_lossy(name, check, monkeypatch):
    """With few samples: whether they suffice is another question. By day `joint` judges those below."""
    set_effort(monkeypatch, ENGINE_HISTORIES=1, ENGINE_ALIKE=8)
    assert outcome(name, check, 0.1).status is not Status.FAILED


def test_the_total_variation_of_a_grammar_that_drops_a_draft_has_a_closed_form():
    prompt, engine = (1, 2), ForbiddenDropped(target=without_repeats, draft_length=1)
    law = traced(completions_of(EngineCode(engine), prompt, 2), 100).law
    first = np.array([sum(mass for text, mass in law.items() if text[0] == token) for token in range(3)])
    p, q = np.array(without_repeats(prompt)), np.array(DRAFT(prompt))
    residual = np.maximum(p - q, 0)
    residual /= residual.sum()
    forbidden = q[p == 0].sum()
    assert abs(first - p).sum() / 2 == pytest.approx(forbidden * abs(p - residual).sum() / 2)
    assert abs(first - p).sum() / 2 > 0.02


def test_pairs_of_completions_of_too_many_outcomes_for_the_budget_are_sampled():
    found = outcome("pattern-drafts-at-first", "batch", 0.2)
    assert (found.status, found.how) == (Status.PASSED, How.SAMPLED)
    assert any("not all outcomes could be run in time" in note for note in found.remarks.notes)


@pytest.mark.parametrize("name", UNSEEN)
def test_engines_that_cannot_be_traced_are_sampled(name):
    found = outcome(name, "joint", 0.2)
    assert found.status is not Status.FAILED
    assert found.how is not How.PROVEN
    assert any("sampled instead" in note for note in found.remarks.notes)
