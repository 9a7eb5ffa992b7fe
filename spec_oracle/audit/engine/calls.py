"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

from dataclasses import replace

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.sampled import drawn_longer_texts
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.engine.traced import enumerated_longer_texts
from spec_oracle.audit.results import CheckResult, Findings, NoEvidenceError


# WAY @CALLS.way(EngineSubject)
def calls(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge texts of several calls, and what a generation leaves behind for the next one."""
    cases = subject.cases(context)
    try:
        found = enumerated_longer_texts(cases, subject.facts, context, alpha)
    except NoEvidenceError as error:
        found = drawn_longer_texts(cases, context, alpha)
        found = replace(found, notes=(f"calls: {error}",))
    if context.findings is not None:
        context.findings = _together(context.findings, found)
    return found.joint


def _together(first: Findings, later: Findings) -> Findings:
    """Return findings of first texts that also say what was found of longer ones."""
    notes = tuple(note for note in later.notes if note not in first.notes)
    return replace(
        first, text=first.text or later.text, scope=first.scope + later.scope, notes=first.notes + notes
    )
