"""Functions of the plain contract: they draw their own random numbers."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.findings import Way
from spec_oracle.audit.evidence.intercepted import intercepted
from spec_oracle.audit.evidence.raced import raced
from spec_oracle.audit.evidence.sampled import sampled
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.engines import RacedEngine
from spec_oracle.plain import PlainCode
from verifiers import Drafting


@dataclass(frozen=True)
class FunctionSubject:
    """A function; ``follow`` says whether its random numbers can be intercepted.

    ``raced`` is the engine behind it, where that can be handed its noise.
    """

    name: str
    code: PlainCode
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    follow: bool = True
    raced: RacedEngine | None = None
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "function"

    def ways_to_law(self, bench: Bench, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call, best first."""
        followed = partial(intercepted, self.code, self.facts, bench, alpha, self.num_paths)
        drawn = partial(sampled, self.code, bench, alpha, self.num_paths)
        if self.raced is not None:
            halved = partial(sampled, self.code, bench, alpha / 2, self.num_paths)
            return partial(raced, self.raced, bench, alpha / 2), halved
        return (followed, drawn) if self.follow else (drawn,)

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this function, "" where it may."""
        del check
        return ""
