"""What can be audited: built-in verifiers, third-party engines, and anything importable."""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verifiers
from spec_oracle import engines
from spec_oracle.audit.uniforms import PlainFunction, drawing_uniforms, takes_uniforms
from spec_oracle.engines import KeyedEngine
from spec_oracle.errors import InvalidInputError
from verifiers import AnyVerifier

ROUNDING = 1e-12
"""Largest total variation that float64 rounding may cause in an audit; rationals cause none."""

FLOAT32_ROUNDING = 1e-6
"""The same for code that computes in float32, as engines do."""


@dataclass(frozen=True)
class Subject:
    """Something to audit: a ``verifier``, which can be enumerated, or a ``function`` of the plain contract.

    ``array`` is the array type that the function takes; ``rule_at(draft_length)`` names the built-in verifier
    whose accepted-length law it declares; ``declared_lossy`` marks rules that relax the law on purpose.
    ``tolerance`` is the total variation that its arithmetic explains; ``follow`` says whether its randomness
    can be intercepted; ``dtype`` is the floating type of the rows that the function is handed; ``known``
    names checks whose failure is on record, with the reason or the page that tells of it. ``with_uniforms``
    is the call with injected uniforms [B, L+1] in place of the generator, ``keyed`` the engine whose noise is
    keyed by seed and position; None where there is none.
    """

    name: str
    verifier: AnyVerifier | None = None
    function: PlainFunction | None = None
    array: str = "numpy"
    rule_at: Callable[[int], str] | None = None
    declared_lossy: bool = False
    single_path: bool = True
    tolerance: float = ROUNDING
    follow: bool = True
    dtype: str = "float64"
    known: Mapping[str, str] = field(default_factory=dict)
    with_uniforms: PlainFunction | None = None
    keyed: KeyedEngine | None = None
    version: str | None = None
    notes: tuple[str, ...] = ()


def subject_names() -> tuple[str, ...]:
    """Return what an audit without arguments covers: all verifiers, and engines installed as packages."""
    installed = (name for name in engines.engine_names() if not engines.engine_subject(name).origin.is_wheel)
    return (*verifiers.names(), *(name for name in installed if not engines.why_unavailable(name)))


def engine_availability() -> tuple[list[str], list[str]]:
    """Return the engines that can be audited here, and a line for each that cannot: name and reason."""
    reasons = {name: engines.why_unavailable(name) for name in engines.engine_names()}
    available = [name for name, reason in reasons.items() if not reason]
    return available, [f"{name}: {reason}" for name, reason in reasons.items() if reason]


def subject_list() -> str:
    """Return what can be audited by name, one line each, and how to get the engines that are missing."""
    available, missing = engine_availability()
    versions = [f"{name} {engines.installed_version(name)}" for name in available]
    parts = {"verifiers": verifiers.names(), "engines": versions, "engines not available here": missing}
    sections = (f"{title}:\n" + "".join(f"  {line}\n" for line in lines) for title, lines in parts.items())
    return "\n".join(sections)


def of_engine(name: str) -> Subject:
    """Return the subject for a third-party engine; raises `EngineError` when it is not available here."""
    engine = engines.load_engine(name)
    known = engine.subject
    return Subject(
        name,
        function=engine.verify,
        array="torch",
        rule_at=known.rule_at,
        declared_lossy=bool(known.declared_lossy),
        tolerance=ROUNDING if known.origin.precision == "float64" else FLOAT32_ROUNDING,
        follow="exact" in known.origin.evidence,
        known=known.known,
        with_uniforms=engine.with_uniforms,
        keyed=engine.keyed,
        version=engines.installed_version(name),
        notes=tuple(note for note in (known.declared_lossy, known.notes) if note),
    )


def resolve_subject(name: str, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject called ``name``: a built-in verifier, an engine, or ``package.module:callable``.

    The callable may be a verifier (an object with ``verify``, or a class without arguments that makes one)
    or a function of the plain contract, which is handed one path unless ``num_paths`` asks for more. Modules
    are looked for in the working directory too. Raises `InvalidInputError` for a name that leads nowhere.
    """
    if name in verifiers.names():
        return of_verifier(name, verifiers.get(name))
    if name in engines.engine_names():
        return of_engine(name)
    if ":" not in name:
        known = ", ".join((*verifiers.names(), *engines.engine_names()))
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
    if takes_uniforms(thing):
        if num_paths not in (None, 1):
            raise InvalidInputError(f"num_paths: {name!r} takes uniforms, so it is handed one path")
        return Subject(name, function=drawing_uniforms(thing), array=array, with_uniforms=thing)
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
