"""Import one source file of a package unmodified; stand-ins replace the rest of the package.

The verification code of an inference engine is a file or two of plain array code inside a package that wants
a GPU and gigabytes of dependencies to be imported. Here those files are imported under their own names from a
folder that holds nothing else; every other module below the same roots becomes a stand-in. A name that a
stand-in was not given is a class that can be inherited from, subscripted and named in annotations, but
refuses to be called: a missing piece is an error where it is used, never a silent nothing.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Self

from spec_oracle.errors import EngineError

Names = Mapping[str, object]
NOTHING: Mapping[str, Names] = MappingProxyType({})


class _Absent:
    """Base of the placeholders for names that nobody provided."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        raise EngineError(f"{cls.__module__}.{cls.__name__} was called, but only a stand-in of it is loaded")

    def __class_getitem__(cls, _parameters: object) -> type["_Absent"]:
        return cls


class _StandIn(ModuleType):
    """A module whose unknown names are placeholder classes."""

    def __getattr__(self, name: str) -> type[_Absent]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return type(name, (_Absent,), {"__module__": self.__name__})


class _Finder:
    """Finds modules below ``roots``: files of ``folder`` as they are, everything else as stand-ins."""

    def __init__(self, folder: Path, roots: set[str], given: Mapping[str, Names]) -> None:
        self._folder, self._roots, self._given = folder, roots, given

    def owns(self, name: str) -> bool:
        return name.partition(".")[0] in self._roots

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not self.owns(fullname):
            return None
        file = self._folder.joinpath(*fullname.split(".")).with_suffix(".py")
        if fullname not in self._given and file.is_file():
            return spec_from_file_location(fullname, file)
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._given.get(module.__name__, {}))


@contextmanager
def _importing(finder: _Finder) -> Iterator[None]:
    """Let ``finder`` answer first; afterwards ``sys.modules`` holds what it held before."""
    before = {name: module for name, module in sys.modules.items() if finder.owns(name)}
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if finder.owns(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def load_alone(name: str, folder: Path, given: Mapping[str, Names] = NOTHING) -> ModuleType:
    """Import module ``name`` from its file below ``folder``; return it without leaving it in `sys.modules`.

    ``given`` maps module names to the names they provide; their roots, and the root of ``name``, are the
    packages that are replaced. Modules whose file lies below ``folder`` are real unless they are given.
    """
    roots = {module.partition(".")[0] for module in (name, *given)}
    with _importing(_Finder(folder, roots, given)):
        return importlib.import_module(name)
