"""What can be audited by name here: rules, samplers and engines."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import verifiers
from spec_oracle.audit import registry
from verifiers import Siblings, accepts_of, drafting_of, traits_of


def subject_names() -> tuple[str, ...]:
    """Return what an audit without arguments covers: all rules, and samplers installed as packages."""
    installed = [
        name
        for name in registry.names()
        if (some := registry.known(name)).rule and not some.wheel and not some.why_unavailable
    ]
    return (*verifiers.names(), *installed)


def engine_availability() -> tuple[list[str], list[str]]:
    """Return the engines that can be audited here, and a line for each that cannot: name and reason."""
    reasons = {name: registry.known(name).why_unavailable for name in registry.names()}
    available = [name for name, reason in reasons.items() if not reason]
    return available, [f"{name}: {reason}" for name, reason in reasons.items() if reason]


_PATHS = {
    Siblings.INDEPENDENT: "K paths",
    Siblings.DISTINCT: "K distinct",
    Siblings.TOP_AND_SAMPLED: "K, top ones",
}


@dataclass(frozen=True)
class Listed:
    """What can be audited by name: its ``group``, what it ``verifies`` (drafts, or by which rule), a line."""

    group: str
    name: str
    verifies: str
    about: str


def _about(rule: str) -> str:
    """Return the first line of the module of a rule."""
    return str(sys.modules[f"verifiers.rules.{rule}"].__doc__).partition("\n")[0]


def _laws(accepts: frozenset[Siblings]) -> str:
    return "any" if accepts == {*Siblings} else ", ".join(law.value for law in Siblings if law in accepts)


def listed() -> Iterator[Listed]:
    """Yield all that can be audited by name, groups together; code under test is not imported."""
    for name in verifiers.names():
        rule = verifiers.get(name)
        paths = "1 path" if traits_of(rule).single_path else _PATHS[drafting_of(rule)]
        trees = "" if traits_of(rule).paths_only else f"; trees: {_laws(accepts_of(rule))}"
        yield Listed("rules", name, paths + trees, _about(name))
    missing = []
    for name in registry.names():
        known = registry.known(name)
        verifies = known.rule or "completions"
        if reason := known.why_unavailable:
            missing.append(Listed("not here", name, verifies, reason.partition(":")[0]))
        else:
            yield Listed("engines", name, verifies, f"{known.version}: {known.about}")
    yield from missing
