"""Functions that are handed their uniforms, as GPU kernels often are."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.findings import Way
from spec_oracle.audit.evidence.integrated import integrated
from spec_oracle.audit.evidence.row_by_row import row_by_row
from spec_oracle.audit.evidence.sampled import sampled
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.plain import PlainCode, PlainFunction, drawing_uniforms
from verifiers import Drafting


@dataclass(frozen=True)
class UniformsSubject:
    """A function whose fourth argument is an array of uniforms [B, L+1]; it is handed one path."""

    name: str
    function: PlainFunction
    facts: Facts = NOTHING_DECLARED
    array: str = "numpy"
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "uniforms"
    num_paths: ClassVar[int] = 1

    @property
    def code(self) -> PlainCode:
        """The function with a generator that draws its uniforms."""
        return PlainCode(drawing_uniforms(self.function), self.array)

    def ways_to_law(self, bench: Bench, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call, best first."""
        injected = PlainCode(self.function, self.array)
        return (
            partial(integrated, injected, self.facts, bench, alpha / 3),
            partial(row_by_row, injected, self.facts, bench, alpha / 3),
            partial(sampled, self.code, bench, alpha, 1),
        )

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this function, "" where it may."""
        del check
        return ""
