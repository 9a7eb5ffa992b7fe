"""From a name, or an object, to the subject that it is."""

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import verifiers
from spec_oracle import engines
from spec_oracle.audit.facts import FLOAT32_ROUNDING, NOTHING_DECLARED, ROUNDING, Facts
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.plain import PlainCode, raising, takes_uniforms
from spec_oracle.systems.engine import EngineCode, is_engine
from spec_oracle.systems.registry import WHOLE_ENGINES
from verifiers import Drafting, drafting_of, traits_of

Subject: TypeAlias = (
    VerifierSubject
    | FunctionSubject
    | UniformsSubject
    | KeyedSubject
    | SystemSubject
    | EngineSubject
    | ServerSubject
)

DEFAULT_PATHS = 2
"""Draft paths of verifiers that take several, unless told otherwise."""


def subject_names() -> tuple[str, ...]:
    """Return what an audit without arguments covers: all verifiers, and samplers installed as packages."""
    installed = [name for name in engines.engine_names() if not engines.engine_subject(name).origin.is_wheel]
    return (
        *verifiers.names(),
        *(name for name in installed if not _why_unavailable(name)),
    )


def engine_availability() -> tuple[list[str], list[str]]:
    """Return the engines that can be audited here, and a line for each that cannot: name and reason."""
    reasons = {name: _why_unavailable(name) for name in engine_names()}
    available = [name for name, reason in reasons.items() if not reason]
    return available, [f"{name}: {reason}" for name, reason in reasons.items() if reason]


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, samplers first, then whole ones."""
    return (*engines.engine_names(), *WHOLE_ENGINES)


def _why_unavailable(name: str) -> str:
    return WHOLE_ENGINES[name].why_unavailable if name in WHOLE_ENGINES else engines.why_unavailable(name)


def _version(name: str) -> str | None:
    return WHOLE_ENGINES[name].version if name in WHOLE_ENGINES else engines.installed_version(name)


_PATHS = {
    Drafting.INDEPENDENT: "K paths",
    Drafting.DISTINCT: "K distinct",
    Drafting.TOP_AND_SAMPLED: "K, top ones",
}


@dataclass(frozen=True)
class Listed:
    """What can be audited by name: its ``group``, what it ``verifies`` (drafts, or by which rule), a line."""

    group: str
    name: str
    verifies: str
    about: str


def listed() -> Iterator[Listed]:
    """Yield all that can be audited by name, groups together; code under test is not imported."""
    for name in verifiers.names():
        rule = verifiers.get(name)
        paths = "1 path" if traits_of(rule).single_path else _PATHS[drafting_of(rule)]
        yield Listed("rules", name, paths, str(sys.modules[type(rule).__module__].__doc__).partition("\n")[0])
    missing = []
    for name in engine_names():
        whole = name in WHOLE_ENGINES
        verifies = "texts" if whole else engines.engine_subject(name).rule
        if reason := _why_unavailable(name):
            missing.append(Listed("not here", name, verifies, reason.partition(":")[0]))
        else:
            known = WHOLE_ENGINES[name] if whole else engines.engine_subject(name)
            about = getattr(known, "declared_lossy", "") or known.notes
            yield Listed("engines", name, verifies, f"{_version(name)}: {about}")
    yield from missing


def require_name(name: str) -> None:
    """Raise `InvalidInputError` for a name that cannot lead anywhere, without running code under test."""
    if ":" not in name:
        if name not in (names := (*verifiers.names(), *engine_names())):
            raise InvalidInputError(f"subject: {unknown(name, names)} (--list, or package.module:object)")
        return
    top = name.partition(":")[0].partition(".")[0]
    _look_in_working_directory()
    if not top or importlib.util.find_spec(top) is None:
        here = (module.name for module in pkgutil.iter_modules([str(Path.cwd())]))
        raise InvalidInputError(f"subject: cannot import {top!r}: {unknown(top, here, 'module')}")


def resolve_subject(name: str, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject called ``name``: a built-in verifier, an engine, or ``package.module:object``.

    The object may be a verifier (an object with ``verify``), an engine (one with ``next_token_probs`` and
    ``generate``), a class or a function without arguments that makes one of these, or a function of the plain
    contract, which is handed one path unless ``num_paths`` asks for more. Modules are looked for in the
    working directory too. Raises `InvalidInputError` for a name that leads nowhere,
    `EngineError` for an engine that is not available here, `SubjectRaisedError` where loading it raises.
    """
    require_name(name)
    if name in verifiers.names():
        return of_verifier(name, verifiers.get(name), array=array, num_paths=num_paths)
    if name in engines.engine_names():
        return of_engine(name)
    if name in WHOLE_ENGINES:
        return of_whole_engine(name)
    return of_object(name, _imported(name), array=array, num_paths=num_paths)


def of_engine(name: str) -> Subject:
    """Return the subject for a third-party engine; raises `EngineError` when it is not available here."""
    with raising():
        engine = engines.load_engine(name)
    known = engine.subject
    facts = Facts(
        rule_at=known.rule_at,
        declared_lossy=known.declared_lossy,
        tolerance=ROUNDING if known.origin.precision == "float64" else FLOAT32_ROUNDING,
        known=known.known,
        version=engines.installed_version(name),
        notes=tuple(note for note in (known.declared_lossy, known.notes) if note),
    )
    if engine.keyed is not None:
        return KeyedSubject(name, engine.keyed, facts)
    if engine.with_uniforms is not None:
        return UniformsSubject(name, engine.with_uniforms, facts, array="torch")
    return FunctionSubject(
        name,
        PlainCode(engine.verify, "torch"),
        facts,
        follow="exact" in known.origin.evidence,
        raced=engine.raced,
    )


def of_whole_engine(name: str) -> EngineSubject:
    """Return the subject for a third-party engine as a whole; `EngineError` when it is not available here."""
    whole = WHOLE_ENGINES[name]
    if whole.why_unavailable:
        raise engines.EngineError(f"{name}: {whole.why_unavailable}")
    with raising():
        made = whole.load()
    return of_engines(name, made, Facts(version=whole.version, notes=(whole.notes,)))


def of_verifier(name: str, verifier: Any, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject for a verifier object; only our own are known to compute in float64 throughout."""
    paths = 1 if traits_of(verifier).single_path else num_paths or DEFAULT_PATHS
    tolerance = ROUNDING if name in verifiers.names() else FLOAT32_ROUNDING
    return VerifierSubject(name, verifier, Facts(tolerance=tolerance), paths, array)


def of_object(name: str, thing: Any, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject for a verifier, an engine, what makes one, or a function of the plain contract."""
    if isinstance(thing, type) or _takes_nothing(thing):
        with raising():
            thing = thing()
    if callable(getattr(thing, "verify", None)):
        return of_verifier(name, thing, array=array, num_paths=num_paths)
    if is_engine(thing):
        return of_engines(name, {"": thing})
    if callable(getattr(thing, "generate", None)):
        raise InvalidInputError(f"subject: {name!r} has generate, but no next_token_probs to judge it by")
    if not callable(thing):
        raise InvalidInputError(f"subject: {name!r} is neither a verifier nor an engine nor callable")
    if takes_uniforms(thing):
        if num_paths not in (None, 1):
            raise InvalidInputError(f"num_paths: {name!r} takes uniforms, so it is handed one path")
        return UniformsSubject(name, thing, array=array)
    return FunctionSubject(name, PlainCode(thing, array), num_paths=num_paths or 1)


def of_engines(name: str, made: Mapping[str, Any], facts: Facts = NOTHING_DECLARED) -> EngineSubject:
    """Return the subject for whole engines by name; one alone is called ""."""
    with raising():
        rules = {str(rule) for engine in made.values() if (rule := getattr(engine, "rule", None)) is not None}
    for rule in rules - {*verifiers.names()}:
        raise InvalidInputError(f"rule: {rule!r} of {name!r}; known ones are {', '.join(verifiers.names())}")
    if len(rules) == 1 and facts.rule_at is None:
        facts = replace(facts, rule_at=partial(_always, rules.pop()))
    return EngineSubject(name, {some: EngineCode(engine) for some, engine in made.items()}, facts)


def _always(rule: str, draft_length: int) -> str:
    del draft_length
    return rule


def _takes_nothing(thing: Any) -> bool:
    """Whether it is a function that is called without arguments."""
    if not inspect.isroutine(thing):
        return False
    try:
        return not inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return False


def _look_in_working_directory() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _imported(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    with raising():
        thing: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            public = [each for each in dir(thing) if not each.startswith("_")]
            raise InvalidInputError(f"subject: {module_name!r} has no {attribute!r}: {unknown(part, public)}")
        thing = getattr(thing, part)
    return thing
