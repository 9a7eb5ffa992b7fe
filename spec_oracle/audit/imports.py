"""Code under audit by ``package.module:object``: which names lead somewhere, and what they import.

Modules are looked for in the working directory first, as long as they hide none that an audit needs.
"""

import ast
import importlib
import importlib.util
import pkgutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from spec_oracle.contracts import raising
from spec_oracle.errors import InvalidInputError, unknown


def require_module(name: str) -> None:
    """Raise `InvalidInputError` where a name begins with no package that can be imported; none is run."""
    top, here = name.partition(":")[0].partition(".")[0], str(Path.cwd())
    # Processes that are started get the search path of this one: it must not lead to a user's modules before
    # ours are loaded.
    if not top or (PathFinder.find_spec(top, [here]) or importlib.util.find_spec(top)) is None:
        modules = (module.name for module in pkgutil.iter_modules([here]))
        raise InvalidInputError(f"subject: cannot import {top!r}: {unknown(top, modules, 'module')}")


def objects_of(file: Path) -> str:
    """Return how the functions and classes of a file are named as subjects, without running it."""
    module = ".".join(file.with_suffix("").parts)
    try:
        found = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        found = []
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [one.name for one in found if isinstance(one, kinds) and not one.name.startswith("_")]
    return " or ".join(f"{module}:{one}" for one in names[:3] or ["object"])


OUR_MODULES: Final = ("spec_oracle", "verifiers", "numpy", "scipy", "torch", "hypothesis", "pebble")
"""Modules that an audit may import itself: files of a user must not hide them."""


def _look_in_working_directory() -> None:
    """Let modules be imported from the working directory, before those that are installed.

    Raises `InvalidInputError` where it has a module that would hide, or be hidden by, one that we need.
    """
    here = Path.cwd()
    for name in OUR_MODULES:
        if namesake := _namesake(here, name):
            raise InvalidInputError(
                f"subject: {namesake.relative_to(here)} in this folder has the name of the package {name!r}, "
                "which spec-oracle needs: rename it"
            )
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))


def _namesake(folder: Path, name: str) -> Path | None:
    """Return the module or package of a folder that has the name of another one, None if there is none."""
    for file in (folder / f"{name}.py", folder / name / "__init__.py"):
        if file.is_file():
            loaded = sys.modules.get(name)
            where = [path for path in sys.path if path not in ("", str(folder))]
            spec = loaded.__spec__ if loaded else PathFinder.find_spec(name, where)
            if spec is not None and spec.origin is not None and not file.samefile(spec.origin):
                return file
    return None


def imported(name: str) -> Any:
    """Return what ``package.module:object`` names; raises `InvalidInputError`, `SubjectRaisedError`."""
    module_name, _, attribute = name.partition(":")
    _look_in_working_directory()
    with raising():
        thing: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            public = [each for each in dir(thing) if not each.startswith("_")]
            raise InvalidInputError(f"subject: {module_name!r} has no {attribute!r}: {unknown(part, public)}")
        thing = getattr(thing, part)
    return thing
