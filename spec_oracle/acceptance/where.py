"""Find the calls of a log whose counts are off: behind a cut, at full acceptance, of short drafts, at an end.

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
    LogPart,
    log_mean,
    log_pmf,
    normalised,
)
from spec_oracle.acceptance.log import LoggedCalls, is_last_of_prompt
from spec_oracle.arrays import Booleans, Integers

BEHIND_A_CUT = "behind a partly accepted draft"
BEHIND_ALL = "behind a fully accepted draft"
FULL = "at full acceptance"
END = "at the end of a completion"
POWERS = (0.0, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0)
"""Of the acceptance probabilities: what no factor of them explains."""

QUESTIONS = {
    BEHIND_A_CUT: "are tokens counted again that were accepted before the cut?",
    BEHIND_ALL: "are drafts counted that were verified before?",
    FULL: "is the last drafted token, or the bonus token, counted without verification?",
    END: "are the counts read after the completion is cut? log them before",
}
"""What to look for in the engine where it counts too many, and at the end; else `MORE`, and `FEWER`."""
MORE = "are these drafts counted without verification?"
FEWER = "are drafts logged that were not verified, or accepted tokens left out?"


@dataclass(frozen=True)
class Part:
    """Calls whose counts are off: ``name`` says which, ``calls`` how many they are of the log.

    ``reported`` and ``expected`` accepted tokens in these calls, and in the ``others``; at full acceptance
    numbers of calls whose whole draft is accepted.
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
    parts = {**evidence.parts, **({END: _calls(calls, is_last_of_prompt(calls))} if _ends(calls) else {})}
    found = {name: log_mean(evidence.log_of_part(part)) for name, part in parts.items()}
    if END in found:
        found[END] -= _longer_at_the_end(calls, evidence)
    everywhere = evidence.log_of_part(_calls(calls, calls.lengths >= 0))
    others = map(log_mean, [everywhere, *evidence.log_everywhere, _powers(evidence), *_places(evidence)[:-1]])
    bar = max(evidence.log_of_best_factor, *others)
    name = max(found, key=lambda one: found[one])
    return _part(name, parts[name], calls, evidence) if found[name] > bar - math.log(alpha) else None


def _longer_at_the_end(calls: LoggedCalls, evidence: AcceptanceEvidence) -> float:
    """Return nats by which counts weighted by n + 1 explain the last calls, 0 if they do not."""
    own = evidence.lenient_log_pmf
    longer = np.log(np.arange(own.shape[1]) + 1) * is_last_of_prompt(calls)[:, None]
    return max(0.0, evidence.log_of(normalised(own + longer)) - evidence.log_of(own))


def _part(name: str, weights: LogPart, calls: LoggedCalls, evidence: AcceptanceEvidence) -> Part:
    masses, lengths = np.exp(evidence.chances.log_pmf), np.arange(weights.size.shape[1])
    reported = int(weights.size[np.arange(len(masses)), calls.accepted].sum())
    expected, of_all = float((masses * weights.size).sum()), float((masses * lengths).sum())
    others = (0, 0.0) if name == FULL else (int(calls.accepted.sum()) - reported, of_all - expected)
    return Part(name, int((weights.size != 0).any(axis=1).sum()), reported, expected, others)


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
    none = np.zeros((len(evidence.lenient), len(columns) + 1), dtype=np.int64)
    return [evidence.log_of_part(LogPart(none, columns[None, :] == column)) for column in columns]


def known_parts(calls: LoggedCalls) -> Mapping[str, LogPart]:
    """Return the parts of the calls that are known before their counts are, by name."""
    before = _before(calls)
    follows, kept, drafted = before >= 0, calls.accepted[before], calls.lengths[before]
    lengths, longest = np.arange(calls.p.shape[1] + 1)[None, :], calls.lengths.max()
    is_draft = calls.lengths > 0
    least = calls.lengths[is_draft].min(initial=longest)
    cuts = (2**power for power in range(8) if least <= 2**power < longest)
    is_whole = (lengths == calls.lengths[:, None]) & is_draft[:, None]
    return {
        BEHIND_A_CUT: _calls(calls, follows & (kept > 0) & (kept < drafted)),
        BEHIND_ALL: _calls(calls, follows & (kept == drafted)),
        FULL: LogPart(is_whole.astype(int), is_whole[:, 1:]),
        **{
            f"in drafts of length at most {most}": _calls(calls, is_draft & (calls.lengths <= most))
            for most in cuts
        },
    }


def _calls(calls: LoggedCalls, some: Booleans) -> LogPart:
    """Return the weights of ``some`` calls, [N]: all their drafted tokens."""
    lengths = np.arange(calls.p.shape[1] + 1)[None, :]
    return LogPart(np.where(some[:, None], lengths, 0), some[:, None] & calls.is_draft)


def _ends(calls: LoggedCalls) -> bool:
    """Whether the log says where a completion ends."""
    return len(set(calls.prompts)) > 1


def _before(calls: LoggedCalls) -> Integers:
    """Return the number of the call before each call of a prompt, -1 for the first one, [N]."""
    last: dict[object, int] = {}
    found = []
    for number, prompt in enumerate(calls.prompts or [None] * len(calls.lengths)):
        found.append(last.get(prompt, -1))
        last[prompt] = number
    return np.array(found)
