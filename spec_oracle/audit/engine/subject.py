"""Whole engines: what their user sees, prompts in and completions out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.exact.completions import Ids
from verifiers import Drafting


@dataclass(frozen=True)
class Case:
    """One engine after one prompt; ``name`` is the engine's within its subject, "" if it is the only one."""

    name: str
    code: EngineCode
    prompt: Ids
    label: str
    """What a reader is shown of it."""


@dataclass(frozen=True)
class EngineSubject:
    """One engine, or several by name that are judged together, such as one under several options."""

    name: str
    engines: Mapping[str, EngineCode]
    facts: Facts = NOTHING_DECLARED
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "engine"
    num_paths: ClassVar[int] = 1

    def cases(self, context: Context, *methods: str) -> list[Case]:
        """Return every engine that has these optional methods, after every prompt."""
        return [
            Case(name, code, prompt, f"{name and f'engine {name!r}, '}prompt {','.join(map(str, prompt))}")
            for name, code in self.engines.items()
            if all(map(code.has, methods))
            for prompt in context.prompts or code.prompts
        ]
