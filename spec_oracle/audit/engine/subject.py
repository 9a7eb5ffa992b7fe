"""Whole engines of the system contract: what a user of an engine sees, prompts in and texts out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.cases import Case
from spec_oracle.audit.engine.sampled import drawn_first_texts
from spec_oracle.audit.engine.traced import enumerated_first_texts
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.audit.results import Way
from spec_oracle.contracts.engine import EngineCode
from verifiers import Drafting


@dataclass(frozen=True)
class EngineSubject:
    """One engine, or several by name that are judged together, such as one under several options."""

    name: str
    engines: Mapping[str, EngineCode]
    facts: Facts = NOTHING_DECLARED
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "engine"
    num_paths: ClassVar[int] = 1

    def cases(self, context: Context) -> list[Case]:
        """Return every engine after every prompt."""
        return [
            Case(name, code, prompt)
            for name, code in self.engines.items()
            for prompt in context.prompts or code.prompts
        ]

    def ways_to_law(self, context: Context, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of the first tokens, best first."""
        cases = self.cases(context)
        return (
            partial(enumerated_first_texts, cases, self.facts, context, alpha),
            partial(drawn_first_texts, cases, context, alpha),
        )

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to these engines, "" where it may."""
        engines = self.engines.values()
        if check == "batch" and not any(code.has("generate_batch") for code in engines):
            return "it generates one text at a time: no generate_batch"
        if check in {"draft-law", "length"} and not any(code.has("start") for code in engines):
            return "it shows no steps: no start"
        return ""
