"""The random functions and the arrays of each library, traced."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

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
