"""The random functions and the arrays of each library, traced."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest import mock

from spec_oracle.exact.errors import NotTracedError

Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]
"""What foreign code calls a function of a library with: only that function knows what it should be."""


@contextmanager
def replaced(owner: object, /, **values: object) -> Iterator[None]:
    """Give attributes of a module or class other values, quicker than `unittest.mock` does."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


Copier: TypeAlias = Callable[[Any, dict[Any, Any]], Any]
"""Copies an object for `copy.deepcopy`, with its memory."""


def copied_as(made: Callable[[Any], object], state_of: Callable[[Any], object]) -> Copier:
    """Return what makes a traced generator of the copy of an ordinary one, which draws for itself.

    Two generators of equal states draw the same numbers, which copies of these do not: raises
    `NotTracedError` for the second one.
    """

    def copied(generator: Any, memory: dict[Any, Any]) -> Any:
        states, state = memory.setdefault("states of generators", []), state_of(generator)
        if state in states:
            raise NotTracedError("two generators of the code have the same state")
        states.append(state)
        return made(generator)

    return copied


@contextmanager
def copies(copiers: Mapping[Any, Copier]) -> Iterator[None]:
    """Let `copy.deepcopy` copy objects of these types so."""
    table: dict[type, Any] = vars(copy)["_deepcopy_dispatch"]
    with mock.patch.dict(table, copiers):
        yield
