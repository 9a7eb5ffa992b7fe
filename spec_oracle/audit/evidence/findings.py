"""What a way of finding a law comes to."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.results import CheckResult, Cover, Evidence, TextCounterexample
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, Gap
from spec_oracle.plain import Emissions
from spec_oracle.toy import Instance
from verifiers import Drafts

Pair: TypeAlias = Callable[[Drafts, np.random.Generator], tuple[Emissions, Emissions]]
"""Verifies drafts by the code and by a rule, with the same uniforms."""

Way: TypeAlias = Callable[[], "Findings"]
"""Finds the law of one call, or raises `NoEvidenceError`."""

TARGET_TV = 0.02
"""Total variation that draws must be able to find before they may call a subject lossless."""

_MAIN = ("good-draft", "reversed")


class NoEvidenceError(SpecOracleError):
    """A way of finding a law does not work for this code; the message says why, and the next way is tried."""


class Law(Protocol):
    """What is known of a subject's law on one instance."""

    @property
    def instance(self) -> Instance:
        """The instance."""
        ...

    @property
    def total_variation(self) -> Any:
        """Distance from the target."""
        ...

    @property
    def block_efficiency(self) -> Any:
        """Tokens per call."""
        ...

    @property
    def accepted_length_pmf(self) -> Sequence[Any]:
        """P(tau = 0), ..., P(tau = L)."""
        ...

    @property
    def largest_gap(self) -> Gap:
        """The text with the largest gap."""
        ...

    def extended(self) -> NDArray[Any]:
        """Return the law of the first L+1 tokens, shape (V,) * (L+1)."""
        ...


@dataclass(frozen=True)
class FoundText:
    """A text that an engine generates otherwise than plain decoding; fields as of `Counterexample`."""

    engine: str
    prompt: tuple[int, ...]
    tokens: int
    gap: Gap
    total_variation: float


@dataclass(frozen=True)
class Findings:
    """The law of one call as found: the result of `joint`, and what a report says besides.

    ``laws`` by name of the instance, ``instances`` as they were given; ``worst`` is the one that shows a
    defect, None without one; ``smallest_detectable_tv`` would have been found. ``length`` is what the same
    evidence says of the accepted length, None where it says nothing. ``law_of(instance, exact=...)`` is the
    exact law on any other instance, where there is one. ``text`` shows the defect of an engine or a server,
    which have prompts in place of instances; ``is_reference_wrong`` if an engine tells another law than it
    decodes plainly. ``rule`` is a built-in rule with the same law after every draft, of code that declares
    none; ``pair`` verifies by code that is handed its uniforms, and by a rule that emits the same with them.
    ``scope`` and ``notes`` are lines for the reader; ``coverage`` as of `SubjectReport`.
    """

    joint: CheckResult
    evidence: Evidence
    laws: Mapping[str, Law] = field(default_factory=dict)
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    instances: Mapping[str, Instance] = field(default_factory=dict)
    worst: str | None = None
    length: CheckResult | None = None
    law_of: Callable[..., EmissionLaw] | None = None
    text: FoundText | TextCounterexample | None = None
    is_reference_wrong: bool = False
    rule: str | None = None
    pair: Pair | None = None
    scope: tuple[str, ...] = ()
    coverage: Mapping[str, Mapping[str, Cover]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def block_efficiency(self) -> float | None:
        """Mean over the instances, tokens per call."""
        means = [float(law.block_efficiency) for law in self.laws.values()]
        return sum(means) / len(means) if means else None


def vacuity(lengths: Iterable[Any]) -> str:
    """Say what never happened, "" where all did; ``lengths`` are laws or counts [L+1] of accepted lengths."""
    listed = list(lengths)
    if not any(some[-1] > 0 for some in listed):
        return "never accepted a whole draft, so no bonus token"
    if not any(sum(some[:-1]) > 0 for some in listed):
        return "never rejected a draft"
    return ""


def scope_of(how: str, instances: Collection[Instance], seen: str = "") -> str:
    """Return a line that says on which instances the law of one call was found, and how."""
    sizes = {f"V {i.vocab_size}, L {i.draft_length}, K {i.num_paths}": None for i in instances}
    return f"law of one call, {how}: {'; '.join(sizes)}; {len(instances)} instances{seen and f', {seen}'}"


def main_instances(names: Collection[str]) -> list[str]:
    """Return the names of the instances that tell most; all names where none of those is among them."""
    return [name for name in _MAIN if name in names] or list(names)
