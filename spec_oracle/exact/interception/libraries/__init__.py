"""The random functions and the arrays of each library, traced."""

import ctypes
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Final, TypeAlias

from spec_oracle.places import is_users

Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]
"""Arguments of foreign code to a function of a library: only that function knows their types."""

_ABSENT: Final = object()


@contextmanager
def replaced(module: ModuleType, /, **values: object) -> Iterator[None]:
    """Give names of a module other values: a hundred for each draft, quicker than `unittest.mock` does."""
    namespace = vars(module)
    before = {name: namespace[name] for name in values}
    try:
        namespace.update(values)
        yield
    finally:
        namespace.update(before)


@contextmanager
def functions_replaced(owner: ModuleType, values: Mapping[str, object]) -> Iterator[None]:
    """Replace functions of a module, also where a module of the user's has imported them by name."""
    others = {id(getattr(owner, name)): value for name, value in values.items()}
    with ExitStack() as by_name:
        for module in _modules_of_user():
            if others.keys().isdisjoint(map(id, vars(module).values())):  # of most, and quicker to see
                continue
            names = {name: others[id(value)] for name, value in vars(module).items() if id(value) in others}
            if names:
                by_name.enter_context(replaced(module, **names))
        with replaced(owner, **values):
            yield


_modules: list[ModuleType] = []
"""The modules of the user's, and how many modules there were when they were looked for."""
_looked_through = 0


def _modules_of_user() -> list[ModuleType]:
    global _looked_through  # noqa: PLW0603  (a walk over all modules takes longer than a short run)
    if len(sys.modules) != _looked_through:
        _looked_through = len(sys.modules)
        _modules[:] = [
            one for one in [*sys.modules.values()] if is_users(getattr(one, "__file__", None) or "<")
        ]
    return _modules


@contextmanager
def methods_replaced(kind: type, methods: Mapping[str, object]) -> Iterator[None]:
    """Give a class other methods, for all of its objects, however old they are.

    A compiled class refuses ``setattr``: what it holds is changed in place then.
    """
    (own,) = gc.get_referents(vars(kind))
    before = {name: own.get(name, _ABSENT) for name in methods}
    modified = ctypes.pythonapi.PyType_Modified
    try:
        own.update(methods)
        modified(ctypes.py_object(kind))
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                del own[name]
            else:
                own[name] = value
        modified(ctypes.py_object(kind))
