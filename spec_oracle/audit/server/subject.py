"""Running servers, of which nothing is known but what they answer over HTTP."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.context import Context
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.audit.results import Way
from spec_oracle.audit.server.joint import by_tree
from spec_oracle.audit.server.served import Served
from spec_oracle.audit.server.two_servers import by_reference


@dataclass(frozen=True)
class ServerSubject:
    """A server, with what was asked of it so far."""

    served: Served
    facts: Facts = NOTHING_DECLARED
    kind: ClassVar[str] = "server"
    num_paths: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The address."""
        return self.served.server.client.url

    def ways_to_law(self, context: Context, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of texts, best first."""
        return tuple(partial(way, self.served, context, alpha) for way in (by_tree, by_reference))

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this server, "" where it may."""
        needs_rows = check in ("plain-law", "calls") and not self.served.server.listed
        return "the server shows no probabilities" if needs_rows else ""
