"""What a specimen is: one defect, isolated, and the checks that must find it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from spec_oracle.systems.contract import SystemFactory
from verifiers import Verifier

PlainVerify: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Specimen:
    """A known-faulty verifier or system, or a control that only looks faulty.

    Exactly one of ``verifier`` (enumerable), ``function`` (plain contract) and ``system`` is given.
    ``zoo_id`` is the number in the bug catalogue and leads to ``source``, the public thread, "mutant" for
    neighbours of real bugs. ``killers`` are checks that must find the defect, without any for a control;
    ``rule`` the declared rule; ``array`` what a function takes.
    """

    name: str
    zoo_id: str
    source: str
    defect: str
    killers: tuple[str, ...]
    verifier: Verifier | None = None
    function: PlainVerify | None = None
    system: SystemFactory | None = None
    array: str = "numpy"
    rule: str | None = None

    @property
    def is_control(self) -> bool:
        """Whether it is lossless, and no check may fail it."""
        return not self.killers

    @property
    def kind(self) -> str:
        """Return "verifier", "function" or "system"."""
        if self.verifier is not None:
            return "verifier"
        return "function" if self.function is not None else "system"


JOINT: Final = ("joint",)

EXACT_ONLY: Final = ("exact",)
"""Killers of a defect too small for draws."""
