"""What is declared of a subject, whatever its kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spec_oracle.audit.bounds import Bound
from spec_oracle.audit.registry import Known

ROUNDING = 1e-12
"""Largest total variation that float64 rounding may cause in an audit; rationals cause none."""

FLOAT32_ROUNDING = 1e-6
"""The same for code that may compute in float32 inside: not lossy for it, and told. For engines it is the
least that counts as rounding: see `spec_oracle.audit.engine.rounding`."""


@dataclass(frozen=True)
class Facts:
    """What a subject declares, or what is known of it beforehand.

    ``rule_at(draft_length)`` names the built-in rule whose accepted-length law it declares;
    ``declared_lossy`` is the reason of rules that relax the law on purpose, "" for others; ``bound`` is how
    far from the target's distribution they are at most, as they declare; ``tolerance`` is the total variation
    that its arithmetic explains; ``known`` names checks whose failure is on record, with the reason or the
    page that tells of it; ``expected`` those of them that the user's configuration names; ``at_most`` the
    largest total variation on record, for checks of the distribution; ``only`` are all
    values of axes of shapes that the code takes; ``proviso`` completes the verdict lossless.
    """

    rule_at: Callable[[int], str] | None = None
    declared_lossy: str = ""
    bound: Bound | None = None
    tolerance: float = FLOAT32_ROUNDING
    known: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    notes: tuple[str, ...] = ()
    expected: frozenset[str] = frozenset()
    at_most: Mapping[str, float] = field(default_factory=dict)
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    proviso: str = ""

    def record(self, check: str) -> str:
        """Return why a check is known to fail, "" where nothing is on record."""
        is_declared = check == "joint" and not self.bound
        return self.known.get(check, "") or (self.declared_lossy if is_declared else "")

    def size_of(self, check: str) -> float | None:
        """Return the largest total variation that is on record for a check, None for nothing."""
        return self.at_most.get(check) if self.record(check) else None

    def admits(self, check: str, size: float) -> bool:
        """Whether so large a total variation is on record."""
        most = self.size_of(check)
        return most is not None and size <= most

    def explained(self, tokens: int) -> float:
        """Return what is no news of so many tokens at any shape: rounding, or a token what is on record."""
        return max(self.tolerance, tokens * (self.size_of("joint") or 0.0))


def always(rule: str, draft_length: int) -> str:
    """Return the rule that is declared for drafts of any length."""
    del draft_length
    return rule


NOTHING_DECLARED = Facts()


def facts_of(known: Known) -> Facts:
    """Return what is known of a subject of a third party."""
    return Facts(
        rule_at=known.rule_at if known.rule else None,
        declared_lossy=known.declared_lossy,
        tolerance=ROUNDING if known.is_float64 else FLOAT32_ROUNDING,
        known=known.expected,
        at_most=known.at_most,
        version=known.version,
        notes=tuple(filter(None, (known.declared_lossy, known.notes))),
        only=known.only,
    )
