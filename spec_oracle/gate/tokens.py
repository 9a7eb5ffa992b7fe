"""Exact block efficiency then and now: the same, less or more, beyond what errors explain.

Two distributions of 1 to L+1 emitted tokens that are known up to total variations e and f may have means that
differ by up to L (e + f) although nothing has changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spec_oracle.audit import Evidence, SubjectVerdict
from spec_oracle.audit.reports import InstanceFigures

_EXACT = (Evidence.EXACT, Evidence.REPLAYED)

MOST_ERROR = 0.1
"""Tokens per call: with a larger error there is nothing to compare. Distributions that count as exact are
known up to a total variation of 0.001, so that only drafts of 100 tokens come near it."""


class Effect(StrEnum):
    """What a change means."""

    WORSE = "worse"
    BETTER = "better"
    NONE = "none"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class TokensPerCall:
    """Tokens per call of a lossless subject, up to ``error``, and the instances' names, by their digests."""

    error: float
    tokens: Mapping[str, float]
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, verdict: str, evidence: str, error: float | None, figures: Sequence[InstanceFigures]
    ) -> "TokensPerCall | None":
        """Return those of a subject as reported, None unless its distribution is exactly the target's.

        ``error`` is the total variation that would not have been noticed.
        """
        if verdict != SubjectVerdict.LOSSLESS or evidence not in _EXACT or not figures or error is None:
            return None
        length = max(len(one.accepted_length) for one in figures) - 1
        if length * error > MOST_ERROR:
            return None
        return cls(
            length * error,
            {one.digest: one.block_efficiency for one in figures},
            {one.digest: one.name for one in figures},
        )

    @property
    def mean(self) -> float:
        """Tokens per call, mean over the instances."""
        return sum(self.tokens.values()) / len(self.tokens)


def tokens_compared(now: TokensPerCall, before: TokensPerCall) -> tuple[Effect, str]:
    """Return what the change is, and a line on it: worse if less is accepted on any instance."""
    if now.tokens.keys() != before.tokens.keys():
        new = [now.names[digest] for digest in now.tokens if digest not in before.tokens]
        gone = [before.names[digest] for digest in before.tokens if digest not in now.tokens]
        names = f"{', '.join(new) or 'none'} new, {', '.join(gone) or 'none'} gone"
        return Effect.UNCLEAR, f"found on other instances: {names}"
    error = now.error + before.error
    shares = {digest: now.tokens[digest] / tokens for digest, tokens in before.tokens.items()}
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)

    def change_at(digest: str) -> str:
        on_average = f"{_change(before.mean, now.mean)} on average"
        there = _change(before.tokens[digest], now.tokens[digest])
        return f"{on_average}; most on {now.names[digest]!r}: {there}"

    if before.tokens[least] - now.tokens[least] > error:
        return Effect.WORSE, f"accepts less than before, {change_at(least)}"
    if now.tokens[most] - before.tokens[most] > error:
        return Effect.BETTER, f"accepts more than before, {change_at(most)}"
    return Effect.NONE, f"{now.mean:.4g} tokens per call, unchanged; a change of {error:.1g} would be noticed"


def _change(before: float, now: float) -> str:
    return f"{before:.4f} to {now:.4f} tokens per call ({100 * (now / before - 1):+.2f} %)"
