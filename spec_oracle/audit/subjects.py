"""What can be audited: built-in verifiers, third-party engines, and anything importable."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import verifiers
from spec_oracle.errors import InvalidInputError
from verifiers import AnyVerifier

PlainFunction: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
"""The plain contract: (draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted)."""


@dataclass(frozen=True)
class Subject:
    """Something to audit: a ``verifier``, which can be enumerated, or a ``function`` of the plain contract.

    ``array`` is the array type that the function takes; ``rule`` the built-in verifier whose accepted-length
    law it declares; ``declared_lossy`` marks rules that relax the law on purpose.
    """

    name: str
    verifier: AnyVerifier | None = None
    function: PlainFunction | None = None
    array: str = "numpy"
    rule: str | None = None
    declared_lossy: bool = False
    single_path: bool = True
    version: str | None = None
    notes: tuple[str, ...] = ()


def subject_names() -> tuple[str, ...]:
    """Return the subjects that an audit without arguments covers."""
    return verifiers.names()


def resolve_subject(name: str, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject called ``name``: a built-in verifier or ``package.module:callable``.

    The callable may be a verifier (an object with ``verify``, or a class without arguments that makes one)
    or a function of the plain contract, which is handed one path unless ``num_paths`` asks for more. Modules
    are looked for in the working directory too. Raises `InvalidInputError` for a name that leads nowhere.
    """
    if name in verifiers.names():
        return of_verifier(name, verifiers.get(name))
    if ":" not in name:
        known = ", ".join(verifiers.names())
        raise InvalidInputError(
            f"subject: unknown {name!r}; expected package.module:callable or one of {known}"
        )
    return of_object(name, _imported(name), array=array, num_paths=num_paths)


def of_verifier(name: str, verifier: AnyVerifier) -> Subject:
    """Return the subject for a verifier object."""
    return Subject(name, verifier=verifier, single_path=getattr(verifier, "single_path", False))


def of_object(name: str, thing: Any, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject for a verifier, a class that makes one, or a function of the plain contract."""
    if isinstance(thing, type):
        thing = thing()
    if hasattr(thing, "verify"):
        return of_verifier(name, thing)
    if not callable(thing):
        raise InvalidInputError(f"subject: {name!r} is neither a verifier nor callable")
    return Subject(name, function=thing, array=array, single_path=num_paths in (None, 1))


def _imported(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        thing: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInputError(f"subject: cannot import {module_name!r}: {error}") from None
    for part in attribute.split("."):
        if not hasattr(thing, part):
            raise InvalidInputError(f"subject: {module_name!r} has no {attribute!r}")
        thing = getattr(thing, part)
    return thing
