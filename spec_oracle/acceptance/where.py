"""Find where the counts of a log are off: behind a cut, in short drafts, at their last token, at an end.

A part of the calls is named where distributions of the counts that are off in this part only explain them
better, by 1 / alpha, than any that is off in all calls alike: a factor of the acceptance probabilities or of
one drafted token, a power of them, longer or shorter lengths, one token more in each call, another rule. What
comes before a call is known before its count, so that under each of these distributions a part is named with
probability alpha at most (Ville's inequality). The end of a completion is not: the call that reaches a length
is longer than others. There the counts must explain more than lengths weighted by n + 1 do.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spec_oracle.acceptance.evidence import (
    LEAST,
    LOG_FACTORS,
    AcceptanceEvidence,
    log_mean,
    log_pmf,
    normalised,
)
from spec_oracle.acceptance.log import LoggedCalls, is_last_of_prompt
from spec_oracle.arrays import Booleans, Integers

BEHIND_A_CUT = "behind a partly accepted draft"
LAST = "at the last drafted token"
END = "at the end of a completion"
POWERS = (0.0, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0)
"""Of the acceptance probabilities: what no factor of them explains."""

QUESTIONS = {
    BEHIND_A_CUT: "are tokens counted again that were accepted before the cut?",
    LAST: "is the last drafted token, or the bonus token, counted without verification?",
    END: "are the counts read after the completion is cut? log them before",
}
"""What to look for in the engine where it counts too many, and at the end; else `MORE`, and `FEWER`."""
MORE = "are these drafts counted without verification?"
FEWER = "are drafts logged that were not verified, or accepted tokens left out?"


@dataclass(frozen=True)
class Part:
    """Drafted tokens whose counts are off: ``name`` says which, in how many ``calls`` they are.

    ``reported`` and ``expected`` accepted ones of these tokens, and of all ``others``.
    """

    name: str
    calls: int
    reported: int
    expected: float
    others: tuple[int, float]

    @property
    def question(self) -> str:
        """The question to ask of the engine."""
        is_less = self.reported < self.expected and self.name != END
        return FEWER if is_less else QUESTIONS.get(self.name, MORE)


def named_part(calls: LoggedCalls, evidence: AcceptanceEvidence, alpha: float) -> Part | None:
    """Return the part of the calls that explains the counts, None where nothing does better than all."""
    parts = dict(evidence.parts)
    if len(set(calls.prompts)) > 1:  # else the log does not say where a completion ends
        parts[END] = is_last_of_prompt(calls)[:, None] & calls.is_draft
    found = {name: log_mean(evidence.log_of_part(part)) for name, part in parts.items()}
    if END in found:
        found[END] -= _longer_at_the_end(calls, evidence)
    everywhere = evidence.log_of_part(calls.is_draft)
    others = map(log_mean, [everywhere, *evidence.log_everywhere, _powers(evidence), *_places(evidence)[:-1]])
    bar = max(evidence.log_of_best_factor, *others)
    name = max(found, key=lambda one: found[one])
    return _part(name, parts[name], calls, evidence) if found[name] > bar - math.log(alpha) else None


def _longer_at_the_end(calls: LoggedCalls, evidence: AcceptanceEvidence) -> float:
    """Return nats by which counts weighted by n + 1 explain the last calls, 0 if they do not."""
    own = evidence.lenient_log_pmf
    longer = np.log(np.arange(own.shape[1]) + 1) * is_last_of_prompt(calls)[:, None]
    return max(0.0, evidence.log_of(normalised(own + longer)) - evidence.log_of(own))


def _part(name: str, part: Booleans, calls: LoggedCalls, evidence: AcceptanceEvidence) -> Part:
    tails, columns = np.cumprod(evidence.chances.known, axis=1), np.arange(part.shape[1])
    is_kept = columns < calls.accepted[:, None]
    others = int(is_kept[~part].sum()), float(tails[~part].sum())
    in_calls = int(part.any(axis=1).sum())
    return Part(name, in_calls, int(is_kept[part].sum()), float(tails[part].sum()), others)


def refutes_a_factor(evidence: AcceptanceEvidence, alpha: float) -> bool:
    """Whether no factor of all acceptance probabilities fits the counts, at false-alarm rate ``alpha``.

    The average likelihood of other distributions against that of the factor that fits best: under any factor
    the ratio exceeds 1 / alpha with probability alpha at most. The others are those of the evidence, powers
    of the probabilities, and a factor of the drafted tokens at one place.
    """
    others = [*evidence.log_families[1:], _powers(evidence), *_places(evidence)]
    return log_mean([*map(log_mean, others)]) - evidence.log_of_best_factor > -math.log(alpha)


def _powers(evidence: AcceptanceEvidence) -> list[float]:
    """Return log likelihoods of the counts with powers of the acceptance probabilities, times a factor."""
    chances = evidence.lenient
    return [
        evidence.log_of(log_pmf((math.exp(size) * chances**power).clip(LEAST, 1 - LEAST)))
        for size in LOG_FACTORS[::4]
        for power in POWERS
    ]


def _places(evidence: AcceptanceEvidence) -> list[list[float]]:
    """Return log likelihoods of the counts with a factor of the first, the second, ... drafted token only."""
    columns = np.arange(evidence.lenient.shape[1])
    return [evidence.log_of_decisions(columns[None, :] == column) for column in columns]


def known_parts(calls: LoggedCalls) -> Mapping[str, Booleans]:
    """Return the drafted tokens [N, L] of parts of the calls that are known before their counts are."""
    before, longest = _before(calls), calls.lengths.max()
    kept, drafted = calls.accepted[before], calls.lengths[before]
    parts = {BEHIND_A_CUT: (before >= 0) & (kept > 0) & (kept < drafted)}
    least = calls.lengths[calls.lengths > 0].min(initial=longest)
    for most in (2**power for power in range(8)):
        if least <= most < longest:
            parts[f"in drafts of length at most {most}"] = calls.lengths <= most
    is_last = np.arange(1, calls.p.shape[1] + 1) == calls.lengths[:, None]
    return {LAST: is_last, **{name: some[:, None] & calls.is_draft for name, some in parts.items()}}


def _before(calls: LoggedCalls) -> Integers:
    """Return the number of the call before each call of a prompt, -1 for the first one, [N]."""
    last: dict[object, int] = {}
    found = []
    for number, prompt in enumerate(calls.prompts or [None] * len(calls.lengths)):
        found.append(last.get(prompt, -1))
        last[prompt] = number
    return np.array(found)
