"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Sample, Sampler
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampling import watched
from spec_oracle.exact import emission_law

INSTANCES = ("flat", "good-draft", "reversed")


ROUNDS = 5


BATCH = 1000


def _by_findings(subject: Any, context: Context) -> CheckResult | None:
    """Return what the evidence of `joint` says already, or why there is nothing to ask."""
    if context.findings is not None and context.findings.length is not None:
        return context.findings.length
    if subject.facts.rule_at is None:
        return CheckResult("length", Status.NOT_APPLICABLE, "no rule is declared")
    return None


# WAY @LENGTH.way( VerifierSubject, SamplerSubject, SamplerSubject, SamplerSubject, requests=ROUNDS * BATCH * len(INSTANCES), of_a_true_law=True, known=_by_findings, )
def length(subject: Any, context: Context) -> CheckResult:
    """Judge the accepted lengths against the declared rule, on every instance."""
    rule_at = subject.facts.rule_at
    instances = [panel(3, 3, subject.num_paths, context.seed)[name] for name in INSTANCES]
    laws = [
        emission_law(verifiers.get(rule_at(instance.draft_length)), instance).accepted_length_pmf
        for instance in instances
    ]
    samples = [Sample.of(instance) for instance in instances]
    sampler = Sampler(subject.code, context.seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            before = [sample.lengths.copy() for sample in samples]
            for sample in samples:
                sampler.draw(sample, BATCH)
            yield [
                np.repeat(np.arange(len(sample.lengths)), sample.lengths - old)
                for sample, old in zip(samples, before, strict=True)
            ]

    return watched("accepted length of the declared rule", laws, rounds(), alpha=alpha)
