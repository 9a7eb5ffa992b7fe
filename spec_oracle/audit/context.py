"""What a check needs to know besides its subject: error rate, budget, inputs, results of earlier checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    LawResult,
    Status,
)
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.audit.shapes.axes import AxisValue
from spec_oracle.audit.subject import Subject
from spec_oracle.statistics import DEFAULT_ALPHA
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance

SHAPES_SHARE: Final = 0.6  # Share of the budget that `shapes` may take, in an audit of one subject.

COUNTED: Final = ("float64", "float32")
"""Number types that samplers get in use: a difference in another type is a note, and fails no check."""


@dataclass(frozen=True)
class Inputs:
    """What code is run on: toy instances of a size, or those that the user gives; prompts of engines.

    ``tokens`` are those of the longest completions that are listed, None for as many as are cheap;
    ``prompts`` replace an engine's own; ``long`` limits the number of long completions, besides time.
    """

    vocab_size: int = 3
    draft_length: int = 3
    instances: Mapping[str, Instance] | None = None
    tokens: int | None = None
    prompts: tuple[tuple[int, ...], ...] = ()
    long: int | None = None


@dataclass(frozen=True)
class ShapeLimits:
    """Which shapes are tried, and which count.

    ``dtypes`` are the types of rows in which a difference counts, ``only`` the values of axes that code is
    declared to take. ``share`` of the budget is theirs; ``most`` limits their number, besides time.
    """

    dtypes: tuple[str, ...] = COUNTED
    only: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    share: float = field(default_factory=lambda: SHAPES_SHARE)
    most: int | None = None

    def why_not(self, vocab_size: int) -> str:
        """Return why code need not take so many tokens: it is declared to take fewer; "" if it must."""
        largest = max(map(int, self.only.get("vocab_size", (vocab_size,))))
        return f"the code takes at most {largest:,} tokens, as is declared" if largest < vocab_size else ""


@dataclass(frozen=True)
class Context:
    """What a check needs to know: seed, time budget, error rate, inputs, and the results of earlier checks.

    ``budget`` in seconds for each check that samples; ``rate`` is the false-alarm rate of the check that
    runs, before one does that of all of them together; ``admitted`` the total variation that is on record for
    it, None for nothing. ``results`` are those of earlier checks, by name. ``exact``: what is enumerated
    is computed in rationals. ``shrink`` asks for the smallest inputs that show a failure; ``again``
    are such inputs, to be run alone.
    """

    seed: int = 0
    budget: float = float("inf")
    rate: float = DEFAULT_ALPHA
    admitted: float | None = None
    results: Mapping[str, CheckResult] = field(default_factory=dict)
    inputs: Inputs = Inputs()
    shapes: ShapeLimits = field(default_factory=ShapeLimits)
    exact: bool = False
    shrink: bool = True
    again: FailingInputs | None = None

    @property
    def shape_seconds(self) -> float:
        """How long the check `shapes` may take."""
        return self.shapes.share * self.budget

    @property
    def findings(self) -> Findings:
        """What `joint` found besides its result; nothing before it ran, or where a check is run alone."""
        joint = self.results.get("joint")
        return joint.findings if isinstance(joint, LawResult) else Findings()

    def is_lossy(self, subject: Subject) -> bool:
        """Whether `joint` has failed, or the subject declares that it would."""
        joint = self.results.get("joint")
        return joint is not None and (joint.status is Status.FAILED or self.is_declared(subject))

    def is_declared(self, subject: Subject) -> bool:
        """Whether `joint` has run, and the subject declares itself lossy."""
        return "joint" in self.results and bool(subject.facts.declared_lossy)

    def is_wrong(self, subject: Subject) -> bool:
        """Whether `joint` has failed, and by more than is on record."""
        joint = self.results.get("joint")
        if joint is None or joint.status is not Status.FAILED:
            return False
        size = 1.0 if joint.measured.total_variation is None else joint.measured.total_variation
        return not subject.facts.admits("joint", size)

    def stream(self, name: str, *numbers: int) -> np.random.Generator:
        """Return the random stream of a name; see `stream`."""
        return stream(self.seed, name, *numbers)

    def after_claims(self) -> "Context":
        """Return the context of samples that decide once plain ones had their part of the rate for claims."""
        return replace(self, rate=(1 - effort.CLAIM_PART) * self.rate)
