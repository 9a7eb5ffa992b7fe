"""Published claims about verification rules, decided by exact enumeration."""

from collections.abc import Iterator

from lab.claims import audited, carry_over, coupling, multi_path, one_step, optima, single_path, variants
from lab.claims.question import Claim, Figures, Question, Ruling, Scope, decide

GROUPS: dict[str, tuple[Question, ...]] = {
    "One path": single_path.QUESTIONS,
    "One step, several drafts": one_step.QUESTIONS,
    "Several paths": multi_path.QUESTIONS,
    "Coupled drafts": coupling.QUESTIONS,
    "Block transport with carry-over": carry_over.QUESTIONS,
    "Optima": optima.QUESTIONS,
    "Variants that look harmless": variants.QUESTIONS,
    "Published code": audited.QUESTIONS,
}
"""All questions by the heading under which they are reported."""


def decided_claims() -> Iterator[tuple[str, tuple[Claim, ...]]]:
    """Decide all questions, group after group; deterministic."""
    for heading, questions in GROUPS.items():
        yield heading, tuple(map(decide, questions))


__all__ = ["GROUPS", "Claim", "Figures", "Question", "Ruling", "Scope", "decide", "decided_claims"]
