"""What can be audited by name: rules, and samplers and engines of third parties.

A package adds its own by an entry point of the group `spec_oracle.subjects`: a sequence of `Known`.

    [project.entry-points."spec_oracle.subjects"]          # pyproject.toml
    fast-decoder = "fast_decoder.audited:SUBJECTS"

    # fast_decoder/audited.py: imports nothing heavy
    from spec_oracle.audit.registry import Known
    SUBJECTS = [Known("fast-decoder", "fast_decoder.verification:verify", "fast-decoder", rule="token")]

Then ``spec-oracle audit fast-decoder`` finds it. `names` lists all, `known` returns what is known of one
before it is loaded: `Known.why_unavailable` and `Known.version` look at what is installed, and only
`Known.load` imports it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from typing import Any, Protocol

import verifiers
from spec_oracle.audit.shapes.axes import AxisValue
from spec_oracle.errors import EngineError, InvalidInputError, unknown
from verifiers import Siblings, accepts_of, drafting_of, traits_of

GROUP = "spec_oracle.subjects"


class Pinned(Protocol):
    """Code of a pinned version of a package that is fetched, not installed."""

    @property
    def package(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> str: ...  # noqa: D102
    @property
    def is_fetched(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True)
class Known:
    """A subject of a third party, before it is loaded.

    ``loader`` is "module:object", the subject itself: a function of the sampler contract, an engine, or a
    class that makes one. With ``options``, which may be empty, it is a function that is called with them, and
    returns such a subject, or engines by name. ``package`` is the distribution under audit; ``requires`` are
    modules that must be importable, ``install`` the command that makes them so. Code that is read out of a
    pinned ``wheel`` is not installed; what is installed must be of version ``since`` or later. ``broken`` is
    the reason why it cannot be used, whatever is installed.

    ``rule`` is the verifier in `verifiers` whose distribution it declares; drafts shorter than ``block_from``
    tokens are verified by the token rule. ``declared_lossy`` is the reason why it does not promise the
    target's distribution, empty when it does. ``expected`` names checks that it is known to fail, each with
    the reason or the page that describes it. ``at_most`` is the largest total variation that is known of
    those that compare with the target, and of `joint` where it is declared lossy: what is larger is a new
    failure. ``function`` is the public code that is called.
    ``array`` is the library of the arrays that a sampler takes; ``is_traceable``: whether its random numbers
    can be traced; ``is_float64``: whether it computes in float64 when it is given such rows; ``only`` are all
    values of axes of shapes that it takes.
    """

    name: str
    loader: str
    package: str
    options: Mapping[str, object] | None = None
    requires: tuple[str, ...] = ()
    install: str = ""
    since: str = ""
    wheel: Pinned | None = None
    rule: str = ""
    block_from: int = 1
    declared_lossy: str = ""
    notes: str = ""
    expected: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    function: str = ""
    array: str = "torch"
    is_traceable: bool = True
    is_float64: bool = False
    only: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    broken: str = ""

    def rule_at(self, draft_length: int) -> str:
        """Return the name of the rule that is declared for drafts of ``draft_length`` tokens."""
        return "token" if self.rule == "block" and draft_length < self.block_from else self.rule

    @property
    def is_quick(self) -> bool:
        """Whether it is a sampler that can be traced: others are sampled, and take longer."""
        return self.is_traceable and bool(self.rule)

    @property
    def about(self) -> str:
        """What a list says of it."""
        return self.declared_lossy or self.notes

    @property
    def why_unavailable(self) -> str:
        """Why it cannot be loaded here, in one line; "" when it can."""
        missing = [module for module in self.requires if find_spec(module) is None]
        if self.broken:
            return self.broken
        if missing:
            return f"{', '.join(missing)} not installed: {self.install}"
        installed = _installed(self.package) if self.since else None
        if installed and _numbers(installed) < _numbers(self.since):
            return f"{self.package} {installed} does not have it yet, {self.since} has: {self.install}"
        if self.wheel is not None and not self.wheel.is_fetched:
            return f"{self.wheel.package} {self.wheel.version} not fetched: {self.install}"
        return ""

    @property
    def version(self) -> str | None:
        """The version that `load` would load, of the wheel or installed; None when it cannot."""
        if self.why_unavailable:
            return None
        if self.wheel is not None:
            return self.wheel.version
        return _installed(self.package)

    def load(self) -> Any:
        """Import it; raises `EngineError` with the reason, in one line, when it is not available."""
        if self.why_unavailable:
            raise EngineError(f"{self.name}: {self.why_unavailable}", do=self.install)
        module, _, attribute = self.loader.partition(":")
        loaded = getattr(import_module(module), attribute)
        return loaded if self.options is None else loaded(**self.options)


def _installed(package: str) -> str | None:
    """Return the version of a distribution, None for modules that no installed one has."""
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what marks it as one before a release."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def names() -> tuple[str, ...]:
    """Return the names of all subjects of third parties: ours first, in the order of reports."""
    return tuple(_registered())


def known(name: str) -> Known:
    """Return what is known of a subject, unloaded; raises `InvalidInputError` for an unknown name."""
    if name not in _registered():
        raise InvalidInputError(f"name: {unknown(name, _registered(), 'engine')}")
    return _registered()[name]


@cache
def _registered() -> Mapping[str, Known]:
    found: dict[str, Known] = {}
    entries = sorted(entry_points(group=GROUP), key=lambda entry: not entry.value.startswith("spec_oracle."))
    for entry in entries:
        try:
            subjects = {subject.name: subject for subject in entry.load()}
        except Exception as error:  # noqa: BLE001  # one broken package must not hide the others
            reason = f"{entry.value} cannot be imported: {type(error).__name__}: {error}"
            subjects = {entry.name: Known(entry.name, entry.value, entry.name, broken=reason)}
        found |= {name: subject for name, subject in subjects.items() if name not in found}
    return found


def subject_names() -> tuple[str, ...]:
    """Return what an audit without arguments covers: all rules, and samplers installed as packages."""
    installed = [
        name for name in names() if (some := known(name)).rule and not some.wheel and not some.why_unavailable
    ]
    return (*verifiers.names(), *installed)


def engine_availability() -> tuple[list[str], list[str]]:
    """Return the engines that can be audited here, and a line for each that cannot: name and reason."""
    reasons = {name: known(name).why_unavailable for name in names()}
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
    for name in names():
        one = known(name)
        verifies = one.rule or "completions"
        if reason := one.why_unavailable:
            missing.append(Listed("not here", name, verifies, reason.partition(":")[0]))
        else:
            yield Listed("engines", name, verifies, f"{one.version}: {one.about}")
    yield from missing
