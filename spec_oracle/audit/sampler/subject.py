"""Functions of the plain contract: they draw their own random numbers."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.adapters.samplers import RacedEngine
from spec_oracle.audit.context import Context
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.audit.results import Way
from spec_oracle.audit.sampler.raced import raced
from spec_oracle.audit.sampler.sampled import sampled
from spec_oracle.audit.sampler.traced import intercepted
from spec_oracle.contracts import SamplerCode
from verifiers import Drafting


@dataclass(frozen=True)
class SamplerSubject:
    """A function; ``follow`` says whether its random numbers can be intercepted.

    ``raced`` is the engine behind it, where that can be handed its noise.
    """

    name: str
    code: SamplerCode
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    follow: bool = True
    raced: RacedEngine | None = None
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "function"

    def ways_to_law(self, context: Context, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call, best first."""
        followed = partial(intercepted, self.code, self.facts, context, alpha, self.num_paths)
        drawn = partial(sampled, self.code, context, alpha, self.num_paths)
        if self.raced is not None:
            halved = partial(sampled, self.code, context, alpha / 2, self.num_paths)
            return partial(raced, self.raced, context, alpha / 2), halved
        return (followed, drawn) if self.follow else (drawn,)

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this function, "" where it may."""
        del check
        return ""
