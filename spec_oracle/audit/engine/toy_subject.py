"""Whole systems: drafter, target, verifier, state and random streams in one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.toy_joint import one_call
from spec_oracle.audit.facts import NOTHING_DECLARED, Facts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import Way
from spec_oracle.contracts.steps import SystemFactory
from spec_oracle.toy import Instance
from verifiers import Drafting

INSTANCES = ("flat", "good-draft", "reversed", "zeros")


@dataclass(frozen=True)
class SystemSubject:
    """A factory of systems that serve toy models, and draft for themselves."""

    name: str
    factory: SystemFactory
    facts: Facts = NOTHING_DECLARED
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "system"
    num_paths: ClassVar[int] = 1

    def toys(self, context: Context) -> Mapping[str, Instance]:
        """Return the instances on which systems are decoded, by name."""
        toys = panel(3, 2, 1, context.seed)
        return {name: toys[name].floats for name in INSTANCES}

    def ways_to_law(self, context: Context, alpha: float) -> tuple[Way, ...]:
        """Return the ways to find the law of one call."""
        return (partial(one_call, self.factory, self.toys(context), alpha, context.seed),)

    def why_not(self, check: str) -> str:
        """Return why a check does not apply to this system, "" where it may."""
        del check
        return ""
