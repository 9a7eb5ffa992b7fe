"""Verifiers: objects that take every random decision from a source, so that they can be enumerated."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.contracts import SamplerCode, as_sampler
from verifiers import AnyVerifier, Drafting, ModelBound, StatefulVerifier, drafting_of


@dataclass(frozen=True)
class VerifierSubject:
    """A verifier; ``array`` is the library in which it is also called as a sampler."""

    name: str
    verifier: AnyVerifier
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    array: str = "numpy"
    kind: ClassVar[str] = "verifier"

    @property
    def drafting(self) -> Drafting:
        """The law by which it wants its paths drawn."""
        return drafting_of(self.verifier)

    @cached_property
    def code(self) -> SamplerCode:
        """The verifier as a sampler; raises `InvalidInputError` for one that carries a state."""
        return SamplerCode(as_sampler(self.verifier), self.array)

    @property
    def never_batched(self) -> str:
        """Why it is asked nothing of batches and memory, "" where it is."""
        is_bound = isinstance(self.verifier, ModelBound)
        return "a rule for toy models, never batched in service" if is_bound else ""

    @property
    def never_called_alone(self) -> str:
        """Why it is asked nothing that one call under the sampler contract would answer, "" where it is."""
        if isinstance(self.verifier, StatefulVerifier):
            return "it carries tokens over to later calls: this check is for rules that see one call only"
        return self.never_batched
