"""Verifiers: objects that take every random decision from a source, so that they can be enumerated."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import verifiers
from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.enumerated import enumerated
from spec_oracle.audit.evidence.findings import Way
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.plain import PlainCode, as_plain
from verifiers import AnyVerifier, Drafting, ModelBound, StatefulVerifier, drafting_of, traits_of

BATCHED = ("batch", "inputs-kept")
CALLED = ("bad-input", "scale", "shapes")


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

    @property
    def code(self) -> PlainCode:
        """The verifier as a sampler; raises `InvalidInputError` for one that carries a state."""
        return PlainCode(as_plain(self.verifier), self.array)

    def ways_to_law(self, bench: Bench, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call."""
        del alpha  # nothing is drawn
        return (partial(enumerated, self.verifier, self.facts, bench, self.num_paths),)

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this verifier, "" where it may."""
        if check == "length" and self.name in verifiers.names():
            return "it is the reference for its rule"
        largest = traits_of(self.verifier).largest_vocab_size
        if check == "scale" and largest is not None:
            return f"made for vocabularies of at most {largest} tokens"
        if check in (*BATCHED, *CALLED) and isinstance(self.verifier, ModelBound):
            return "a rule for toy models, never batched in service"
        if check in CALLED and isinstance(self.verifier, StatefulVerifier):
            return "it owes text to later calls: made for rules that see one call and its rows only"
        return ""
