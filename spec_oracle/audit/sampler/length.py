"""The check `length`: the accepted length is distributed as by the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.throughput import require_affordable
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.exact import emission_law

LENGTH_ROUNDS: Final = 5  # Looks at the samples of `length`.
LENGTH_REQUESTS: Final = 1_000  # Samples of a round on each instance.

INSTANCES = ("flat", "good-draft", "reversed")


def length(subject: CalledAsSampler, context: Context) -> CheckResult:
    """Return what `joint` found already, or else judge accepted lengths against the declared rule's."""
    if context.findings.length is not None:
        return context.findings.length
    rule_at = subject.facts.rule_at
    if rule_at is None:
        return not_asked("no rule is declared")
    require_affordable(subject, context, LENGTH_ROUNDS * LENGTH_REQUESTS * len(INSTANCES))
    instances = [panel(3, 3, subject.num_paths, context.seed)[name] for name in INSTANCES]
    rules = [verifiers.get(rule_at(instance.draft_length)) for instance in instances]
    laws = [emission_law(*pair).accepted_length_pmf for pair in zip(rules, instances, strict=True)]
    calls = Calls(subject.code, context.seed, "sampler/length")

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(LENGTH_ROUNDS):
            yield [calls.emissions(instance.floats, LENGTH_REQUESTS).lengths - 1 for instance in instances]

    return judge_rounds("accepted lengths", laws, rounds(), alpha=context.rate)
