"""What is declared of a subject, whatever its kind: its rule, its failures on record, its bound.

A verifier, or a function of the sampler contract, that is not lossless on purpose may say how far it goes:

    class Relaxed:
        declared_bound = ("total_variation", 0.1)   # or ("kl", 0.05), in nats

The check `joint` then passes within this bound, and fails beyond it: the verdict is `declared-lossy` or
`lossy`.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spec_oracle.audit.registry import Known
from spec_oracle.audit.shapes.axes import AxisValue
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact import EmissionLaw

ROUNDING = 1e-12
"""Largest total variation that float64 rounding may cause in an audit; rationals cause none."""

FLOAT32_ROUNDING = 1e-6
"""The same for code that may compute in float32 inside: not lossy for it, and told. For engines it is the
least that counts as rounding: see `spec_oracle.audit.engine.rounding`."""


MEASURES: Final = {
    "total_variation": "total variation {:.3g}",
    "kl": "Kullback-Leibler divergence of a next-token distribution {:.3g} nats",
}
"""What a bound may be on, as the report says it.

The total variation is that of the first L+1 tokens. The divergence is KL(emitted || target) of the next token
after any of their prefixes: tokens after the emission are sampled from the target there, which can only lower
it. So a rule of which each step keeps a bound is never found beyond it.
"""

_NEGLIGIBLE: Final = 1e-9
"""The probability of a prefix below which rounding decides what comes after it."""


@dataclass(frozen=True)
class Bound:
    """``most`` of ``measure``, a name of `MEASURES`; raises `InvalidInputError` for anything else."""

    measure: str
    most: float

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise InvalidInputError(f"declared_bound: {unknown(self.measure, MEASURES)}")
        if not (isinstance(self.most, int | float) and 0 <= self.most < math.inf):
            raise InvalidInputError(f"declared_bound: expected a number of at least 0, got {self.most!r}")

    def __str__(self) -> str:
        return f"at most {MEASURES[self.measure].format(self.most)}"

    def figure(self, law: EmissionLaw) -> float:
        """Return how far the distribution of one call is from the target's, by this measure."""
        return float(law.total_variation) if self.measure == "total_variation" else largest_divergence(law)

    def compared(self, figure: float, instance: str) -> str:
        """Say what was found on an instance beside what is declared."""
        return f"{MEASURES[self.measure].format(figure)} on instance {instance!r}, {self.most:.3g} declared"


def declared_bound(thing: Any) -> Bound:
    """Return the bound that an object declares in its attribute ``declared_bound``; errors as `Bound`."""
    declared = thing.declared_bound
    if not isinstance(declared, tuple) or len(declared) != 2:
        raise InvalidInputError(f"declared_bound: expected (measure, number), got {declared!r}")
    measure, most = declared
    return Bound(measure, most if isinstance(most, int) else float(most))


def largest_divergence(law: EmissionLaw) -> float:
    """Return the largest KL(emitted || target) of a next-token distribution of one call, in nats."""
    emitted, vocab = law.extended().astype(np.float64), law.instance.vocab_size
    largest = 0.0
    for length in range(emitted.ndim):
        masses = emitted.reshape(vocab ** (length + 1), -1).sum(axis=1).reshape(-1, vocab)
        before = masses.sum(axis=1, keepdims=True)
        rows = np.divide(masses, before, out=np.zeros_like(masses), where=before > _NEGLIGIBLE)
        target = law.instance.target.rows(length).astype(np.float64)
        if (rows[target == 0] > _NEGLIGIBLE).any():
            return math.inf
        both = (rows > 0) & (target > 0)
        logs = np.log(np.divide(rows, target, out=np.ones_like(rows), where=both))
        largest = max(largest, float((rows * logs).sum(axis=1).max()))
    return largest


@dataclass(frozen=True)
class OnRecord:
    """Checks whose failure is known: with the reason or the page that describes it.

    ``by_user`` are those of them that the user's configuration names; ``at_most`` is the largest total
    variation on record, for checks of the distribution.
    """

    reasons: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    by_user: frozenset[str] = frozenset()


NOTHING_ON_RECORD: Final = OnRecord()


def how_to_accept(subject: str, check: str, reason: str) -> str:
    """Return the option, and the line of a configuration, that accept a failed check for a reason."""
    quoted = ", ".join(
        f"{key} = {json.dumps(value)}"
        for key, value in (("subject", subject), ("check", check), ("reason", reason))
    )
    line = f"expected-failures = [{{{quoted}}}]"
    where = "into spec-oracle.toml, or under [tool.spec-oracle] into pyproject.toml,"
    below = f"below subjects = [{json.dumps(subject)}]"  # a configuration without subjects is refused
    return f"if {reason}, add --skip {check}, or write {where} {below}: {line}"


@dataclass(frozen=True)
class Facts:
    """What a subject declares, or what is known of it beforehand.

    ``rule_at(draft_length)`` names the built-in rule whose accepted-length law it declares;
    ``declared_lossy`` is the reason of rules that relax the law on purpose, "" for others; ``bound`` is how
    far from the target's distribution they are at most, as they declare; ``tolerance`` is the total variation
    that its arithmetic explains; ``failures`` are those on record; ``only`` are all values of axes of shapes
    that the code takes; ``proviso`` completes the verdict lossless.
    """

    rule_at: Callable[[int], str] | None = None
    declared_lossy: str = ""
    bound: Bound | None = None
    tolerance: float = FLOAT32_ROUNDING
    failures: OnRecord = NOTHING_ON_RECORD
    version: str | None = None
    notes: tuple[str, ...] = ()
    only: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    proviso: str = ""

    def record(self, check: str) -> str:
        """Return why a check is known to fail, "" where nothing is on record."""
        is_declared = check == "joint" and not self.bound
        return self.failures.reasons.get(check, "") or (self.declared_lossy if is_declared else "")

    def size_of(self, check: str) -> float | None:
        """Return the largest total variation that is on record for a check, None for nothing."""
        return self.failures.at_most.get(check) if self.record(check) else None

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
        failures=OnRecord(known.expected, known.at_most),
        version=known.version,
        notes=tuple(filter(None, (known.declared_lossy, known.notes))),
        only=known.only,
    )
