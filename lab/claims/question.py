"""A published claim as a question to the oracle, and the answer: decided on instances, in rationals."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from lab.claims.families import Family
from spec_oracle.toy import Instance

Figures: TypeAlias = dict[str, Fraction]
"""Exact numbers by name, in the order in which they are shown."""


class Ruling(Enum):
    """What the instances say about a claim."""

    HOLDS = "holds"
    """No instance tried speaks against it. That is no proof for all instances."""

    PROVED = "proved"
    """It claims that an instance exists, and here is one."""

    REFUTED = "refuted"
    """It claims something of every instance, and here is one where it fails; all before that one agree."""

    UNDECIDED = "undecided"
    """It claims that an instance exists, and none was found."""


class Scope(Enum):
    """Whether a claim is about every instance or about the existence of one."""

    EVERY = "every"
    SOME = "some"


@dataclass(frozen=True)
class Question:
    """A claim that exact figures can decide.

    ``statement`` is the claim; ``source`` the paper or thread, or the rule that the claim is about;
    ``figures`` computes the numbers it is about on one instance, in rationals; ``holds`` says whether the
    claim is true of them; ``family`` are the instances to try, in this order.
    """

    statement: str
    source: str
    figures: Callable[[Instance], Figures]
    holds: Callable[[Figures], bool]
    family: Family
    scope: Scope = Scope.EVERY


@dataclass(frozen=True)
class Claim:
    """A decided question.

    ``tried`` is the number of instances up to the verdict. ``instance`` and ``figures`` are the deciding
    instance and its numbers; None and {} where the verdict rests on all instances.
    """

    question: Question
    verdict: Ruling
    tried: int
    instance: Instance | None
    figures: Figures


def decide(question: Question) -> Claim:
    """Try the instances in order until one decides, or all have been tried."""
    decisive, tried = question.scope is Scope.SOME, 0
    for tried, candidate in enumerate(question.family.instances(), start=1):  # used after it
        found = question.figures(candidate)
        if question.holds(found) is decisive:
            return Claim(question, Ruling.PROVED if decisive else Ruling.REFUTED, tried, candidate, found)
    return Claim(question, Ruling.UNDECIDED if decisive else Ruling.HOLDS, tried, None, {})
