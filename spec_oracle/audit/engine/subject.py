"""Engines as subjects of an audit, and the cases of a check: an engine after a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import ClassVar, Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.contracts.engine import EngineCode, copy_of
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.completions import Ids
from spec_oracle.places import defined_at
from verifiers import Siblings

_TOKENS: Final = 4
"""Tokens of the longest completion of a plain call."""


@dataclass(frozen=True)
class Case:
    """One engine after one prompt; ``name`` is the engine's within its subject, "" if it is the only one."""

    name: str
    code: EngineCode
    prompt: Ids
    label: str
    """Engine and prompt, for messages."""


def first_prompts(cases: Sequence[Case]) -> list[Case]:
    """Return the case of each engine's first prompt."""
    return list({case.name: case for case in reversed(cases)}.values())[::-1]


@dataclass(frozen=True)
class EngineSubject:
    """One engine, or several by name that are judged together, such as one under several options."""

    name: str
    engines: Mapping[str, EngineCode]
    facts: Facts = NOTHING_DECLARED
    drafting: ClassVar[Siblings] = Siblings.INDEPENDENT
    kind: ClassVar[str] = "engine"
    num_paths: ClassVar[int] = 1
    carries_state: ClassVar[bool] = False
    is_rerunnable: ClassVar[bool] = True
    call_form: ClassVar[str] = ""

    @property
    def place(self) -> str:
        """Where the first engine is defined."""
        return next((defined_at(code.engine.generate) for code in self.engines.values()), "")

    @property
    def drafts(self) -> Speculation:
        """Whether drafts were made, accepted and rejected, as all checks together saw it."""
        return reduce(or_, (code.drafts.seen for code in self.engines.values()))

    def plain_call(self, seed: int) -> None:
        """Ask each engine for a distribution and for a few completions."""
        seed_all(seed)
        for code in self.engines.values():
            copied = copy_of(code.engine)
            one = code if copied is None else EngineCode(copied)
            one.require_call_forms()
            one.trial(one.prompts[0], _TOKENS)

    def cases(self, context: Context, *methods: str) -> list[Case]:
        """Return every engine that has these optional methods, after every prompt."""
        return [
            Case(name, code, prompt, f"{name and f'engine {name!r}, '}prompt {','.join(map(str, prompt))}")
            for name, code in self.engines.items()
            if all(map(code.has, methods))
            for prompt in context.inputs.prompts or code.prompts
        ]
