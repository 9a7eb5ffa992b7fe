"""Samplers and engines of third parties by name, ours and those of other packages.

A package adds its own by an entry point of the group `spec_oracle.subjects`, which names a sequence of `Known`:

    [project.entry-points."spec_oracle.subjects"]          # pyproject.toml
    fast-decoder = "fast_decoder.audited:SUBJECTS"

    # fast_decoder/audited.py: imports nothing heavy
    from spec_oracle.adapters.registry import Known
    SUBJECTS = [Known("fast-decoder", "fast_decoder.verification:verify", package="fast-decoder", rule="token")]

Then ``spec-oracle audit fast-decoder`` finds it. `names` lists all, `known` returns what is known of one before
it is loaded, `why_unavailable` and `version` look at what is installed, and only `load` imports it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from typing import Any

from spec_oracle.adapters.errors import EngineError
from spec_oracle.adapters.samplers.wheels import Wheel
from spec_oracle.errors import InvalidInputError, unknown

GROUP = "spec_oracle.subjects"


@dataclass(frozen=True)
class Known:
    """A subject of a third party, before it is loaded.

    ``loader`` is "module:function"; the function is called with ``options``, and returns a function of the
    sampler contract, or, where ``kind`` is "engine", engines by name. Where there are no options it may also
    be the sampler itself. ``package`` is the distribution under audit; ``requires`` are modules that must be
    importable, ``install`` the command that makes them so. Of code that is read out of a pinned ``wheel``
    nothing needs to be installed.

    ``rule`` is the verifier in `verifiers` whose distribution it declares; drafts shorter than ``block_from``
    tokens are verified by the token rule. ``declared_lossy`` is the reason why it does not promise the
    target's distribution, empty when it does. ``expected`` names checks that it is known to fail, each with
    the reason or the page that describes it. ``function`` is the public code that is called.
    ``is_traceable``: whether its random numbers can be traced; ``is_sampled_only``: whether there is no other
    evidence than samples; ``is_float64``: whether it computes in float64 when it is given such rows.
    """

    name: str
    loader: str
    package: str
    kind: str = "sampler"
    options: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    install: str = ""
    wheel: Wheel | None = None
    rule: str | None = None
    block_from: int = 1
    declared_lossy: str = ""
    notes: str = ""
    expected: Mapping[str, str] = field(default_factory=dict)
    function: str = ""
    is_traceable: bool = True
    is_sampled_only: bool = False
    is_float64: bool = False

    def rule_at(self, draft_length: int) -> str | None:
        """Return the name of the rule that is declared for drafts of ``draft_length`` tokens."""
        return "token" if self.rule == "block" and draft_length < self.block_from else self.rule

    @property
    def about(self) -> str:
        """What a list says of it."""
        return self.declared_lossy or self.notes

    @property
    def why_unavailable(self) -> str:
        """Why it cannot be loaded here, in one line; "" when it can."""
        missing = [module for module in self.requires if find_spec(module) is None]
        if missing:
            return f"{', '.join(missing)} not installed: {self.install}"
        if self.wheel is not None and not self.wheel.is_fetched:
            return f"{self.wheel.package} {self.wheel.version} not fetched: {self.install}"
        return ""

    @property
    def version(self) -> str | None:
        """The version that `load` would load, None when it cannot: that of the wheel, or the installed one."""
        if self.why_unavailable:
            return None
        if self.wheel is not None:
            return self.wheel.version
        try:
            return installed_version(self.package)
        except PackageNotFoundError:
            return None

    def load(self) -> Any:
        """Import it; raises `EngineError` with the reason, in one line, when it is not available."""
        if self.why_unavailable:
            raise EngineError(f"{self.name}: {self.why_unavailable}")
        module, _, function = self.loader.partition(":")
        return getattr(import_module(module), function)(**self.options)


@cache
def _registered() -> Mapping[str, Known]:
    """Return all subjects by name, in the order in which reports list them: ours first."""
    found: dict[str, Known] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (not _is_ours(entry), entry.name)):
        for subject in entry.load():
            if subject.name in found:
                raise EngineError(f"{subject.name}: registered twice, the second time by {entry.value}")
            found[subject.name] = subject
    return found
