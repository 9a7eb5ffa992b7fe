"""Engines whose noise is a hash of (request seed, position), and that can be handed both."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.findings import Way
from spec_oracle.audit.evidence.keyed import keyed
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.engines import KeyedEngine
from spec_oracle.plain import PlainCode
from verifiers import Drafting


@dataclass(frozen=True)
class KeyedSubject:
    """An engine on torch tensors; ``engine`` also keeps the plain contract, with fresh seeds."""

    name: str
    engine: KeyedEngine
    facts: Facts = NOTHING_DECLARED
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "keyed"
    num_paths: ClassVar[int] = 1

    @property
    def code(self) -> PlainCode:
        """The engine with fresh seeds in every call."""
        return PlainCode(self.engine.__call__, "torch")

    def ways_to_law(self, bench: Bench, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call."""
        return (partial(keyed, self.engine, bench, alpha),)

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this engine, "" where it may."""
        del check
        return ""
