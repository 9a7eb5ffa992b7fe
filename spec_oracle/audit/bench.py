"""Where the checks of one subject are run: what they may know, and what the first of them found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spec_oracle.audit.draws import Sample, Sampler
from spec_oracle.audit.evidence.findings import Findings, Pair
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.plain import ContractError, SubjectRaisedError
from spec_oracle.statistics import DEFAULT_ALPHA
from spec_oracle.toy import Instance

SHAPES_SHARE = 0.4
"""Share of the budget that other shapes may take, in an audit of one subject."""

LEAST_PART = 0.05
"""That much of it is left to each of many subjects."""

_TRIAL = 16


@dataclass
class Bench:
    """What the checks of one subject share.

    ``alpha`` is the false-alarm rate of all of them together; ``budget`` in seconds for each that draws;
    ``vocab_size`` and ``draft_length`` of the toys on which laws are found, unless the user's ``instances``
    replace them; ``tokens`` of the longest texts of engines, None for as many as are cheap, and ``prompts``
    in place of their own; ``exact`` and ``array`` are the arithmetic of what is enumerated. ``findings`` is
    what `joint` found, ``plain_law`` the result of `plain-law`, None before they ran or where a check is run
    on its own. ``part`` is the subject's part of the run; ``most_shapes`` limits `shapes`, besides time.
    """

    alpha: float = DEFAULT_ALPHA
    seed: int = 0
    budget: float = float("inf")
    vocab_size: int = 3
    draft_length: int = 3
    instances: Mapping[str, Instance] | None = None
    tokens: int | None = None
    prompts: tuple[tuple[int, ...], ...] = ()
    exact: bool = False
    array: str = "numpy"
    findings: Findings | None = None
    plain_law: CheckResult | None = None
    part: float = 1.0
    most_shapes: int | None = None
    _pace: float | None = field(default=None, init=False)

    @property
    def shape_seconds(self) -> float:
        """How long the check `shapes` may take: the more subjects a run has, the shorter."""
        return SHAPES_SHARE * self.budget * max(self.part, LEAST_PART)

    def toys(self, num_paths: int) -> Mapping[str, Instance]:
        """Return the instances on which the law of one call is found."""
        if self.instances is not None:
            return self.instances
        return panel(self.vocab_size, self.draft_length, num_paths, self.seed)

    @property
    def is_plain_law_open(self) -> bool:
        """Whether `plain-law` ran, and did not pass."""
        return self.plain_law is not None and self.plain_law.status is not Status.PASSED

    def is_law_wrong(self, subject: Any) -> bool:
        """Whether `joint` has found the law of one call wrong, or it is declared to be."""
        found = self.findings
        declared = bool(subject.facts.declared_lossy)
        return found is not None and (declared or found.joint.status is Status.FAILED)

    @property
    def pair(self) -> Pair | None:
        """The code and a rule that emits the same with the same uniforms, as `joint` found them."""
        return None if self.findings is None else self.findings.pair

    def affordable(self, subject: Any, share: float = 1.0) -> float:
        """Return how many verified requests of a subject a share of the budget pays."""
        return share * self.budget * self.pace(subject)

    def pace(self, subject: Any) -> float:
        """Return verified requests per second of a second call: the first may compile.

        Infinite where the subject raises: the checks will say so better.
        """
        if self._pace is None:
            sampler = Sampler(subject.code, self.seed)
            sample = Sample.of(panel(3, 3, subject.num_paths, self.seed)["flat"])
            try:
                sampler.draw(sample, _TRIAL)
                sampler.seconds, sampler.draws = 0.0, 0
                sampler.draw(sample, _TRIAL)
                self._pace = sampler.pace
            except (ContractError, SubjectRaisedError):
                self._pace = float("inf")
        return self._pace
