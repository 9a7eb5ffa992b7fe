"""What an audit asks of a running server, and how a request may fail; how both are written is for clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from spec_oracle.contracts.completion import Prompt
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


@dataclass(frozen=True)
class DraftCounts:
    """Drafted and accepted tokens, None where not reported; ``accepted`` may be a mean per call."""

    drafted: float | None = None
    accepted: float | None = None

    def __add__(self, other: "DraftCounts") -> "DraftCounts":
        return DraftCounts(_sum(self.drafted, other.drafted), _sum(self.accepted, other.accepted))

    def since(self, before: "DraftCounts") -> "DraftCounts":
        """Return what was counted after ``before``; a mean is no count, and stays what it is."""
        if self.drafted is None or self.accepted is None or before.drafted is None or before.accepted is None:
            return self
        return DraftCounts(self.drafted - before.drafted, self.accepted - before.accepted)


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second
