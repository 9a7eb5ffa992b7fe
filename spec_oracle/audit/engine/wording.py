"""How completions and numbers of them are told."""

from collections.abc import Sequence
from typing import Any

from spec_oracle.audit.engine.subject import Case


def scope_of(cases: Sequence[Case], lengths: Sequence[int], how: str) -> str:
    """Return a line that says which completions were judged, and how."""
    engines = len({case.name for case in cases})
    span = f"{lengths[0]} to " * (lengths[0] < lengths[-1]) + counted(lengths[-1], "token")
    return f"completions of {span}, {counted(engines, 'engine')}, {counted(len(cases), 'prompt')}, {how}"


def counted(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def shown(sequence: tuple[Any, ...]) -> str:
    """Return a completion, or completions that follow each other, for people."""
    if sequence and isinstance(sequence[0], tuple):
        return " and then ".join(map(shown, sequence))
    return ",".join(map(str, sequence)) or "(empty)"
