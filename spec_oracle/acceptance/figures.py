"""The figures of an acceptance log: reported, expected by each rule on the same drafts, and the verdict."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import scipy

from spec_oracle.acceptance.evidence import CONFIDENCE, AcceptanceEvidence, Chances, share_bounds
from spec_oracle.acceptance.log import POSITIONS, Aggregate, LoggedCalls, Reported, aggregates, compared
from spec_oracle.acceptance.rules import RULES, accepted_lengths
from spec_oracle.acceptance.where import Part, known_parts, named_part, refutes_a_factor
from spec_oracle.arrays import Floats
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import DEFAULT_ALPHA
from spec_oracle.statistics.intervals import holm
from spec_oracle.validation import require_one_of, require_share

NOISE = 1e-4
"""Nats by which a logged log p - log q may be off: more than rounding of float32."""

LEAST_NOISE = 1e-12
"""Rounding of our own arithmetic."""


DEFINITIONS = (
    ("accepted/call", "accepted tokens per call", "without the correction or bonus token"),
    ("length", "tokens per call", "block efficiency, mean acceptance length"),
    ("accepted/drafted", "accepted / drafted", "draft acceptance rate"),
    ("accepted/verified", "accepted / verified", "conditional acceptance rate, alpha"),
)
"""What engines call acceptance: the name of the aggregate, the name in words, and what else it is called."""


@dataclass(frozen=True)
class Definition:
    """One figure that engines call acceptance: reported, and expected by the rule."""

    name: str
    also_called: str
    reported: float
    expected: float


@dataclass(frozen=True)
class RuleFigures:
    """One rule on the drafts of a log; lengths in accepted tokens per call.

    ``expected`` given the drafts, between ``bounds``, which differ where the log lists likeliest tokens only;
    ``interval`` for the mean over all such drafts, `CONFIDENCE`; ``p_value`` of the counts under the rule, of
    rules that are not the declared one adjusted for all of them (Holm).
    """

    name: str
    expected: float
    bounds: tuple[float, float]
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class Acceptance:
    """The figures of a log under ``rule``; rates are probabilities, lengths are accepted tokens per call.

    ``reported`` and ``interval`` of the counts; ``rules`` that the log can be compared with, the declared one
    first, and ``missing`` fields by the names of other rules; ``p_value`` of the declared rule, under which
    the counts of ``impossible`` calls have probability 0; ``factor`` of its acceptance probabilities that
    fits the counts, with an interval, None where the counts refute every factor; ``where`` they are off, None
    where no part of the calls explains it; ``aggregates`` that the engine reports, beside the log; ``share``
    of the expected tokens with `CONFIDENCE` bounds, and ``share_at_alpha`` with bounds that miss at rate
    alpha each; ``detects``, the nearest factors below and above 1 that are found with probability 0.999, and
    ``detects_share`` of the expected tokens at the first.
    """

    file: str
    rule: str
    calls: int
    drafted: int
    accepted: int
    prompts: int
    interval: tuple[float, float]
    rules: tuple[RuleFigures, ...]
    missing: Mapping[str, tuple[str, ...]]
    p_value: float
    impossible: int
    factor: tuple[float, float, float] | None
    where: Part | None
    aggregates: tuple[Aggregate, ...]
    share: tuple[float, float]
    share_at_alpha: tuple[float, float]
    detects: tuple[float, float]
    detects_share: float
    definitions: tuple[Definition, ...]
    alpha: float
    at_least: float | None
    detect: float

    @property
    def reported(self) -> float:
        """Accepted tokens per call."""
        return self.accepted / self.calls

    @property
    def share_of_expected(self) -> float | None:
        """Reported tokens as a share of what the rule is expected to accept; None where that is nothing."""
        expected = self.rules[0].expected
        return self.reported / expected if expected else None

    @property
    def disagrees(self) -> bool:
        """Whether the counts contradict the declared rule, at false-alarm rate alpha."""
        return self.p_value <= self.alpha

    @property
    def accepts_more(self) -> bool:
        """Whether more is accepted than by the declared rule, at false-alarm rate alpha."""
        return self.share_at_alpha[0] > 1

    @property
    def fitting(self) -> tuple[str, ...]:
        """The rules that the counts do not contradict."""
        return tuple(one.name for one in self.rules if one.p_value > self.alpha)

    @property
    def is_fewer_alike(self) -> bool:
        """Whether one factor below 1 explains the counts: what a gate by share allows."""
        return self.factor is not None and self.factor[0] < 1

    @property
    def passes(self) -> bool | None:
        """Whether counts and aggregates are as they should be; None where there are too few calls."""
        return self.counts_pass if all(one.agrees for one in self.aggregates) else False

    @cached_property
    def counts_pass(self) -> bool | None:
        """Whether the counts are what they should be; None where there are too few calls to know."""
        if self.at_least is None:
            is_sensitive = self.detects[0] >= 1 - self.detect
            return False if self.disagrees else True if is_sensitive else None
        if self.share_at_alpha[1] < self.at_least or self.accepts_more:
            return False
        if self.disagrees and not self.is_fewer_alike:
            return False
        is_seen = not self.disagrees and self.detects_share >= self.at_least
        return True if is_seen or self.share[0] >= self.at_least else None

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 not, 2 too few calls."""
        return {True: 0, False: 1, None: 2}[self.passes]


def acceptance(
    calls: LoggedCalls,
    *,
    file: str = "",
    rule: str = "token",
    alpha: float = DEFAULT_ALPHA,
    at_least: float | None = None,
    detect: float = 0.1,
    noise: float = NOISE,
    reported: Reported = MappingProxyType({}),
) -> Acceptance:
    """Compare the accepted counts of a log with what ``rule`` should accept of these drafts.

    ``noise`` in nats is by how much log p - log q may be off. With ``at_least`` a share of the expected
    tokens is enough; else the counts have to agree, and enough calls are those that show acceptance
    probabilities smaller by the share ``detect``. ``reported`` are aggregates of the engine itself, which are
    compared with the log. Raises `InvalidInputError` for unknown rules and for rules
    that depend on what the log lacks.
    """
    require_one_of(rule, "--rule", RULES)
    if at_least is not None:
        require_share(at_least, "--at-least")
    missing = {name: fields for name, one in RULES.items() if (fields := one.missing(calls))}
    if rule in missing:
        needed = " and ".join(f'"{field}"' for field in missing[rule])
        raise InvalidInputError(f'--rule {rule}: the log needs {needed}, or rows ("target" and "draft")')
    names = [rule, *(name for name in RULES if name not in missing and name != rule)]
    evidence = _evidence(calls, names, noise)
    p_values = [one.p_value for one in evidence.values()]
    adjusted = [p_values[0], *holm(np.array(p_values[1:])).tolist()]
    chosen, longest = evidence[rule], int(calls.lengths.max())
    bounds, detects = chosen.chances.bounds, chosen.detects(alpha)
    disagrees = chosen.p_value <= alpha
    where = named_part(calls, chosen, alpha) if disagrees else None
    is_refuted = where is not None or (disagrees and refutes_a_factor(chosen, alpha))
    return Acceptance(
        file=file,
        rule=rule,
        calls=len(calls.lengths),
        drafted=int(calls.lengths.sum()),
        accepted=int(calls.accepted.sum()),
        prompts=len(set(calls.prompts)),
        interval=mean_interval(calls.accepted.astype(float), calls.prompts),
        rules=tuple(
            _figures(calls, name, one, p) for (name, one), p in zip(evidence.items(), adjusted, strict=True)
        ),
        missing=missing,
        p_value=chosen.p_value,
        impossible=chosen.impossible,
        factor=None if is_refuted else chosen.factor(),
        where=where,
        aggregates=compared(reported, calls),
        share=share_bounds(calls.accepted, bounds, longest, (1 - CONFIDENCE) / 2),
        share_at_alpha=share_bounds(calls.accepted, bounds, longest, alpha),
        detects=detects,
        detects_share=chosen.share_at(detects[0]),
        definitions=definitions(calls, accepted_lengths(chosen.chances.known)),
        alpha=alpha,
        at_least=at_least,
        detect=detect,
    )


def _evidence(calls: LoggedCalls, names: Sequence[str], noise: float) -> dict[str, AcceptanceEvidence]:
    """Return the evidence against each rule; the alternatives of one are the others."""
    chances, parts = {name: _chances(calls, name, noise) for name in names}, known_parts(calls)
    others = {name: [chances[other].known for other in names if other != name] for name in names}
    return {
        name: AcceptanceEvidence(calls.accepted, one, others[name], parts) for name, one in chances.items()
    }


def _chances(calls: LoggedCalls, rule: str, noise: float) -> Chances:
    slack = max(noise, LEAST_NOISE)
    known, lower, upper = (RULES[rule].chances(calls, one) for one in (0.0, -slack, slack))
    return Chances(*(np.asarray(one, dtype=np.float64) for one in (known, lower, upper)))


def _figures(calls: LoggedCalls, name: str, evidence: AcceptanceEvidence, p_value: float) -> RuleFigures:
    expected = accepted_lengths(evidence.chances.known).sum(axis=1)
    low, high = (float(one.mean()) for one in evidence.chances.bounds)
    return RuleFigures(
        name, float(expected.mean()), (low, high), mean_interval(expected, calls.prompts), p_value
    )


def mean_interval(values: Floats, prompts: Sequence[Hashable]) -> tuple[float, float]:
    """Return an interval for the mean of ``values`` [N] over such prompts, and calls of them.

    By Student's t with prompts as clusters, or with independent calls where no two prompts have a label of
    their own; coverage about `CONFIDENCE`. The error is that of the mean without each of them in turn
    (jackknife): a prompt with most of the calls counts for one. Infinite for a single value.
    """
    number = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
    labels = [number[prompt] for prompt in prompts] if len(number) > 1 else range(len(values))
    mean, groups = float(values.mean()), max(labels) + 1
    if groups == 1:
        return -math.inf, math.inf
    sums, sizes = np.bincount(labels, values - mean), np.bincount(labels)
    without = sums / (len(values) - sizes)
    error = math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))
    half = float(scipy.stats.t.isf((1 - CONFIDENCE) / 2, groups - 1)) * error
    return mean - half, mean + half


def definitions(calls: LoggedCalls, tails: Floats) -> tuple[Definition, ...]:
    """Return what engines call acceptance, from the counts and from P(tau >= i) [N, L] of a rule."""
    both = aggregates(calls), aggregates(calls, tails)
    places = enumerate(zip(*(one[POSITIONS] for one in both), strict=True), 1)
    return (
        *(Definition(name, also, *(one[key][0] for one in both)) for key, name, also in DEFINITIONS),
        *(
            Definition(f"calls that accept token {place}", "acceptance rate of a position", *pair)
            for place, pair in places
        ),
    )
