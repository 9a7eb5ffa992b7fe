"""From a name, or an object, to the subject that it is."""

import ast
import copy
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

import verifiers
from spec_oracle.audit import registry
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import (
    FLOAT32_ROUNDING,
    NOTHING_DECLARED,
    ROUNDING,
    Facts,
    always,
    declared_bound,
    facts_of,
)
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.results import DECLARED
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import Subject
from spec_oracle.contracts import SamplerCode, raising
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.contracts.sampler import generator_by_position, parameters_of, signature_of
from spec_oracle.errors import InvalidInputError, unknown
from verifiers import AnyVerifier, Siblings, accepts_of, drafting_of, traits_of

_PATHS: Final = 2
"""Draft paths of rules for several, unless the user says otherwise."""

_PARENTS: Final = ("parents",)
"""The second parameter of a function of draft trees."""


def is_third_party(name: str) -> bool:
    """Whether a name is that of an engine or sampler of other people."""
    return ":" not in name and parted(name)[0] in registry.names()


def quickness(name: str) -> int:
    """Sort key: slow subjects first, so that no process starts one last."""
    if ":" in name:
        return 0
    if name in verifiers.names():
        return 2 + traits_of(verifiers.get(name)).single_path
    return int(is_third_party(name) and registry.known(parted(name)[0]).is_quick)


def parted(name: str) -> tuple[str, str]:
    """Return the subject that a name leads to, and the one of its engines that is asked for, "" for all.

    >>> parted("mlx-lm-penalties/frequency"), parted("package.module:object")
    (('mlx-lm-penalties', 'frequency'), ('package.module:object', ''))
    """
    module, is_object, attribute = name.partition(":")
    subject, _, engine = (attribute if is_object else name).partition("/")
    if is_object:
        return f"{module}:{subject}", engine
    return (subject, engine) if subject in registry.names() else (name, "")


def require_name(name: str) -> None:
    """Raise `InvalidInputError` for a name that cannot lead anywhere, without running code under test."""
    name, _ = parted(name)
    if ":" not in name:
        names = (*verifiers.names(), *registry.names())
        if name in names:
            return
        if (file := _file_of(name)) is not None:
            raise InvalidInputError(
                f"subject: {name!r} is a module: name an object in it, {objects_of(name, file)}"
            )
        raise InvalidInputError(f"subject: {unknown(name, names)} (--list, or package.module:object)")
    require_module(name)


def resolve_subject(name: str, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject called ``name``: a built-in rule, an engine, or ``package.module:object``.

    The object may be a rule (an object with ``verify``), a sampler (one whose ``verify`` takes four
    arguments), an engine (one with
    ``next_token_probs`` and ``generate``), several engines by name, a class or a function without arguments
    that makes one of these, or a function of the sampler contract, which is given one path unless
    ``num_paths`` asks for more. "subject/engine" is one of several engines. Modules are looked for in the
    working directory too. Raises `InvalidInputError` for a name that leads nowhere, `EngineError` for an
    engine that is not available here, `SubjectRaisedError` where loading it raises.
    """
    if name in verifiers.names():
        return of_rule(name, verifiers.get(name), array=array, num_paths=num_paths)
    require_name(name)
    subject, engine = parted(name)
    if engine:
        found = resolve_subject(subject, array=array, num_paths=num_paths)
        if not isinstance(found, EngineSubject) or engine not in found.engines:
            engines = found.engines if isinstance(found, EngineSubject) else ()
            raise InvalidInputError(f"subject: {subject!r} has {unknown(engine, engines, 'engine')}")
        return replace(found, name=name, engines={"": found.engines[engine]})
    if ":" in name:
        return of_object(name, imported(name), array=array, num_paths=num_paths)
    return of_third_party(registry.known(name))


def named_verifier(name: str) -> AnyVerifier:
    """Return the built-in rule of that name, or the one that ``package.module:object`` is or makes.

    Raises `InvalidInputError` for a name that leads nowhere, or to something else, and for a rule that draws
    random numbers by itself: it cannot be enumerated.
    """
    if ":" not in name:
        if name not in verifiers.names():
            raise InvalidInputError(f"verifier: {unknown(name, verifiers.names())}")
        return verifiers.get(name)
    found = resolve_subject(name)
    if not isinstance(found, RuleSubject):
        hint = "; `spec-oracle audit` shows the tokens per call of a sampler" * (found.kind == "sampler")
        raise InvalidInputError(f"verifier: {name!r} has no verify(drafts, decisions){hint}")
    if fault := own_randomness(found, Context()):
        raise InvalidInputError(f"verifier: {name}: {fault}")
    return found.rule


def of_third_party(known: registry.Known) -> Subject:
    """Return the subject of a third party; raises `EngineError` when it is not available here."""
    with raising():
        loaded = known.load()
    facts = facts_of(known)
    if isinstance(loaded, Mapping):
        return of_engines(known.name, loaded, facts)
    if hasattr(loaded, "with_seeds"):
        return SamplerSubject.of_keys(known.name, loaded, facts)
    if hasattr(loaded, "with_uniforms"):
        taking = SamplerSubject.of_uniforms(known.name, loaded.with_uniforms, facts, array=known.array)
        return replace(taking, traceable=known.is_traceable)
    found: Any = of_object(known.name, loaded, array=known.array)
    found = replace(found, facts=facts)
    if isinstance(found, SamplerSubject) and found.randomness is None:
        noise = loaded if hasattr(loaded, "with_noise") else None
        return replace(found, traceable=known.is_traceable, randomness=noise)
    ours: Subject = found
    return ours


def of_object(name: str, thing: Any, *, array: str = "numpy", num_paths: int | None = None) -> Subject:
    """Return the subject for an object: a rule, an engine, what makes one, or a sampler function."""
    if isinstance(thing, type) or _takes_nothing(thing):
        with raising():
            thing = thing()
    found = _of_instance(name, thing, array=array, num_paths=num_paths)
    if getattr(thing, "declared_bound", None) is None:
        return found
    if not isinstance(found, RuleSubject | SamplerSubject):
        raise InvalidInputError(f"declared_bound: bounds are for rules and samplers, {name!r} is none")
    bound = declared_bound(thing)
    note = f"{DECLARED}: {bound}"
    return replace(found, facts=replace(found.facts, declared_lossy=note, bound=bound, notes=(note,)))


def _of_instance(name: str, thing: Any, *, array: str, num_paths: int | None) -> Subject:
    if is_engine(thing):
        return of_engines(name, {"": thing})
    if callable(verify := getattr(thing, "verify", None)):
        is_sampler = takes_four(verify) and not hasattr(thing, "initial_state")
        if is_sampler or parameters_of(verify)[1:2] == _PARENTS:
            return of_function(name, verify, array=array, num_paths=num_paths, holder=thing)
        return of_rule(name, thing, array=array, num_paths=num_paths)
    if callable(verify := getattr(thing, "verify_tree", None)):
        if len(parameters_of(verify)) != len(("drafts", "decisions")):
            return of_trees(name, thing, verify, array=array)
        raise InvalidInputError(
            f"subject: {name!r} has verify_tree; a rule for trees has verify(drafts, decisions), and accepts"
        )
    if isinstance(thing, Mapping) and thing and all(map(is_engine, thing.values())):
        return of_engines(name, thing)
    if callable(getattr(thing, "generate", None)):
        raise InvalidInputError(f"subject: {name!r} has generate, but no next_token_probs to judge it by")
    if not callable(thing):
        raise InvalidInputError(f"subject: {name!r} is neither a verifier nor an engine nor callable")
    return of_function(name, thing, array=array, num_paths=num_paths)


def of_rule(
    name: str, rule: AnyVerifier, *, array: str = "numpy", num_paths: int | None = None
) -> RuleSubject:
    """Return the subject for a rule; only our own are known to compute in float64 throughout.

    Raises `InvalidInputError` for wrong ``accepts``, ``traits`` or ``rule``.
    """
    accepted, is_ours = accepts_of(rule), name in verifiers.names()
    one_path = traits_of(rule).single_path or drafting_of(rule) is Siblings.BEAM
    paths = 1 if one_path else num_paths or _PATHS
    facts = Facts(tolerance=ROUNDING if is_ours else FLOAT32_ROUNDING)
    declared = getattr(rule, "rule", None)
    if isinstance(declared, str):  # that of a walk is a function
        facts = Facts(tolerance=facts.tolerance, rule_at=partial(always, _declared(name, accepted, declared)))
    return RuleSubject(name, rule, facts, paths, array)


def _declared(name: str, accepts: frozenset[Siblings], declared: str) -> str:
    """Return the declared rule, which must take some of the siblings."""
    known = verifiers.names()
    if declared not in known:
        raise InvalidInputError(f"rule: {name!r} declares {unknown(declared, known, 'rule')}")
    if not accepts & accepts_of(verifiers.get(declared)):
        laws = ", ".join(sorted(law.value for law in accepts))
        raise InvalidInputError(
            f"rule: {name!r} declares {declared}, which does not accept its siblings: {laws}"
        )
    return declared


def is_engine(thing: object) -> bool:
    """Whether an object keeps the engine contract, by its methods."""
    return callable(getattr(thing, "next_token_probs", None)) and callable(getattr(thing, "generate", None))


def of_function(
    name: str, function: Any, *, array: str, num_paths: int | None, holder: object = None
) -> SamplerSubject:
    """Return the subject for a function of the sampler contract; ``holder`` is the object that has it."""
    names = parameters_of(function)
    if names[:2] == ("drafts", "decisions"):
        raise InvalidInputError(
            f"subject: {name!r} is a function of drafts and decisions; a rule is an object with "
            "verify(drafts, decisions), and accepts"
        )
    if names[1:2] == _PARENTS:
        return of_trees(name, holder or function, function, array=array)
    function = generator_by_position(function)
    if names[3:4] == ("uniforms",):
        if num_paths not in (None, 1):
            raise InvalidInputError(f"num_paths: {name!r} takes uniforms: give it one path")
        return SamplerSubject.of_uniforms(name, function, array=array)
    return SamplerSubject(name, SamplerCode(function, array), num_paths=num_paths or 1)


def of_trees(name: str, holder: object, function: Any, *, array: str) -> SamplerSubject:
    """Return the subject for a tree sampler, whose laws of siblings its ``holder`` declares.

    Raises `InvalidInputError` where it declares none: no law is right for all drafters.
    """
    if getattr(holder, "accepts", None) is None:
        known = ", ".join(law.value for law in Siblings)
        raise InvalidInputError(
            f"subject: {name!r} verifies draft trees; declare how its drafter chooses the children of a node"
            f', such as verify_tree.accepts = {{"independent"}} (known are {known})'
        )
    return SamplerSubject.of_trees(name, function, accepts_of(holder), array)


def of_engines(name: str, made: Mapping[str, object], facts: Facts = NOTHING_DECLARED) -> EngineSubject:
    """Return the subject for whole engines by name; one alone is called ""."""
    with raising():
        rules = {str(rule) for engine in made.values() if (rule := getattr(engine, "rule", None)) is not None}
    for rule in rules - {*verifiers.names()}:
        raise InvalidInputError(f"rule: {rule!r} of {name!r}; known ones are {', '.join(verifiers.names())}")
    if len(rules) == 1 and facts.rule_at is None:
        facts = replace(facts, rule_at=partial(always, rules.pop()))
    with raising():
        each = {
            some: EngineCode(one) for label, engine in made.items() for some, one in _by_length(label, engine)
        }
        if not all(code.has("generate_plain") for code in each.values()):  # its target is what it says it is
            facts = replace(facts, proviso="as its own next_token_probs says")
    return EngineSubject(name, each, facts)


def _by_length(name: str, engine: Any) -> Iterator[tuple[str, object]]:
    """Yield an engine, and a copy of it with each other draft length that it has, after its first prompt."""
    yield name, engine
    for length in getattr(engine, "draft_lengths", None) or ():
        if length != engine.draft_length:
            other = copy.deepcopy(engine)
            other.draft_length, other.prompts = length, (getattr(engine, "prompts", None) or [[0]])[:1]
            yield f"{name} with drafts of {length}".strip(), other


def _takes_nothing(thing: object) -> bool:
    """Whether it is a function that is called without arguments."""
    try:
        return inspect.isroutine(thing) and not inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return False


def takes_four(function: Callable[..., object]) -> bool:
    """Whether a function takes four arguments, as samplers do; verifiers take two or three."""
    parameters = signature_of(function).values()
    taken = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_keyword = sum(one.name == "generator" and one.kind is one.KEYWORD_ONLY for one in parameters)
    return len(taken) + by_keyword >= 4 and all(one.default is one.empty for one in taken[:3])


def require_module(name: str) -> None:
    """Raise `InvalidInputError` where a name begins with no package that can be imported; none is run."""
    module, here = name.partition(":")[0], str(Path.cwd())
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise InvalidInputError(f"subject: there is no file {module}")
        return
    top = module.partition(".")[0]
    # Processes that are started get the search path of this one: it must not lead to a user's modules before
    # ours are loaded.
    if not top or (PathFinder.find_spec(top, [here]) or importlib.util.find_spec(top)) is None:
        modules = (module.name for module in pkgutil.iter_modules([here]))
        raise InvalidInputError(f"subject: cannot import {top!r}: {unknown(top, modules, 'module')}")


def _file_of(name: str) -> Path | None:
    """Return the file of a module in the working directory, by its path or name; None if there is none."""
    if name.endswith(".py"):
        return Path(name)
    module = Path(*name.split("."))
    return next(
        (file for file in (module.with_suffix(".py"), module / "__init__.py") if file.is_file()), None
    )


def objects_of(name: str, file: Path) -> str:
    """Return what can be audited of a file, named as subjects, without running it.

    Functions of four arguments or none, classes with the methods of a verifier or engine, and what is
    imported from elsewhere; all public functions and classes where there is none of these.
    """
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        body = []
    public = [one for one in body if isinstance(one, _NAMED) and not one.name.startswith("_")]
    found = [one.name for one in public if _is_auditable(one)]
    if file.name == "__init__.py":
        names = (
            alias for one in body if isinstance(one, ast.ImportFrom) and one.level for alias in one.names
        )
        found += [alias.asname or alias.name for alias in names]
    module = ".".join(file.with_suffix("").parts) if len(file.parts) == 1 else name
    return " or ".join(f"{module}:{one}" for one in found or [one.name for one in public] or ["object"])


_NAMED = (ast.FunctionDef, ast.ClassDef)


def _is_auditable(one: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a function or class looks like a verifier, a sampler, an engine, or what makes one."""
    if isinstance(one, ast.ClassDef):
        methods = {each.name for each in one.body if isinstance(each, ast.FunctionDef)}
        return bool(
            one.bases or methods & {"verify", "verify_tree"} or methods >= {"next_token_probs", "generate"}
        )
    needed = len(one.args.posonlyargs) + len(one.args.args) - len(one.args.defaults)
    return needed == 4 or not (one.args.args or one.args.kwonlyargs)


OUR_MODULES: Final = ("spec_oracle", "verifiers", "numpy", "scipy", "torch", "hypothesis", "pebble")
"""Modules that an audit may import itself: files of a user must not hide them."""


def _look_in_folder(folder: Path) -> None:
    """Let modules be imported from a folder, before those that are installed.

    Raises `InvalidInputError` where it has a module that would hide, or be hidden by, one that we need.
    """
    for name in OUR_MODULES:
        if namesake := _namesake(folder, name):
            file = namesake.relative_to(folder)
            raise InvalidInputError(
                f"subject: {file} in this folder has the name of the package {name!r}, which spec-oracle "
                "needs: rename it"
            )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _namesake(folder: Path, name: str) -> Path | None:
    """Return the module or package of a folder that has the name of another one, None if there is none."""
    for file in (folder / f"{name}.py", folder / name / "__init__.py"):
        if file.is_file():
            loaded = sys.modules.get(name)
            where = [path for path in sys.path if path not in ("", str(folder))]
            spec = loaded.__spec__ if loaded else PathFinder.find_spec(name, where)
            if spec is None and file.parent == folder:
                return file  # The package is not installed: whatever asks for it would get this file.
            if spec is not None and spec.origin is not None and not file.samefile(spec.origin):
                return file
    return None


def imported(name: str) -> object:
    """Return what ``package.module:object`` or ``path/to/file.py:object`` names.

    A file is imported as a module of its folder, or of the package that this is. Raises `InvalidInputError`,
    `SubjectRaisedError`.
    """
    module_name, _, attribute = name.partition(":")
    _look_in_folder(Path.cwd())
    if module_name.endswith(".py"):
        file = Path(module_name).resolve()
        folder = next(each for each in file.parents if not (each / "__init__.py").is_file())
        module_name = ".".join(file.relative_to(folder).with_suffix("").parts)
        _look_in_folder(folder)
    with raising():
        thing: object = importlib.import_module(module_name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            public = [each for each in dir(thing) if each[0] != "_" and callable(getattr(thing, each, None))]
            raise InvalidInputError(f"subject: {module_name!r} has no {attribute!r}: {unknown(part, public)}")
        thing = getattr(thing, part)
    return thing
