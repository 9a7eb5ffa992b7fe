"""Requests to a running server, counts of drafts, and errors, whatever API the server has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from spec_oracle.contracts.completion import Completion, Prefix, Prompt
from spec_oracle.errors import SubjectRaisedError

Json: TypeAlias = Any
"""What is written as JSON, parsed: whoever reads it finds out whether it is what it should be."""


class ServerError(SubjectRaisedError):
    """The server is gone, or does not do what it was asked."""


class OutOfTimeError(ServerError):
    """The time that requests may take is over; the server may be well."""


class RefusedError(ServerError):
    """The server refuses the request as it is: a status of 400 to 499 but 429, 501, or 500 each time."""


@dataclass(frozen=True)
class Ask:
    """One request: at most ``tokens`` tokens after ``prompt``; ``listed`` log-probabilities of each.

    ``temperature`` replaces that of the audit; ``fields`` are sent besides those of the audit.
    """

    prompt: Prompt
    tokens: int
    seed: int | None = None
    listed: int = 0
    temperature: float | None = None
    fields: Mapping[str, Json] = field(default_factory=dict)


def impossible_counts(found: Completion) -> str:
    """Return what is impossible about the counts of drafts, "" if nothing is or none are reported."""
    if found.drafted is None or found.accepted is None:
        return ""
    if not 0 <= found.accepted <= found.drafted:
        return f"the server reports {found.accepted} accepted of {found.drafted} drafted tokens"
    # Of a completion that ended, more may have been accepted than was sent.
    if not found.ended and found.accepted > max(0, len(found.tokens) - 1):
        return (
            f"the server reports {found.accepted} accepted tokens in a completion of {len(found.tokens)}, "
            "whose first token cannot be a draft"
        )
    return ""


def prefixes_of(completion: Prefix, start: int = 0) -> list[Prefix]:
    """Return the prefixes before the tokens of a completion, from one of them on."""
    number, tokens = completion
    return [(number, tokens[:end]) for end in range(start, len(tokens))]


@dataclass(frozen=True)
class DraftCounts:
    """Drafted and accepted tokens, and ``calls`` with a draft; None where not reported.

    ``accepted`` may be a mean per call: then ``drafted`` is None.
    """

    drafted: float | None = None
    accepted: float | None = None
    calls: float | None = None

    def __add__(self, other: "DraftCounts") -> "DraftCounts":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return DraftCounts(*(None if None in pair else sum(pair) for pair in pairs))

    def since(self, before: "DraftCounts") -> "DraftCounts":
        """Return what was counted after ``before``; a mean is no count, and stays what it is."""
        if None in (self.drafted, self.accepted, before.drafted, before.accepted):
            return self
        if (self.drafted or 0) < (before.drafted or 0):  # the server was started anew
            return self
        pairs = zip(vars(self).values(), vars(before).values(), strict=True)
        return DraftCounts(*(None if None in pair else pair[0] - pair[1] for pair in pairs))

    @property
    def contradiction(self) -> str:
        """Say what no length of drafts explains, "" if nothing: each call drafts one token at least."""
        if self.drafted is None:
            return ""
        if self.accepted is not None and self.accepted > self.drafted:
            return f"{self.accepted:,.0f} accepted of {self.drafted:,.0f} drafted tokens"
        if self.calls is not None and self.calls > self.drafted:
            return f"{self.calls:,.0f} calls with {self.drafted:,.0f} drafted tokens"
        return ""
