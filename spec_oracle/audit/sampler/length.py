"""The check `length`: the accepted length is distributed as by the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

import math
from typing import Final

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Calls, require_affordable
from spec_oracle.audit.experiment import Experiment, numbered, sampled
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.sampling import Effort
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
    toys = panel(3, 3, subject.num_paths, context.seed)
    calls = Calls(subject.code, context.seed, "sampler/length")

    def on(name: str) -> Experiment:
        toy = toys[name]
        law = np.array(emission_law(verifiers.get(rule_at(toy.draft_length)), toy).accepted_length_pmf)
        lengths = lambda count: calls.emissions(toy.floats, count).lengths - 1  # noqa: E731
        return numbered(f"instance {name!r}", "the accepted length", law, lengths, shown="{} accepted".format)

    looks = Effort(math.inf, LENGTH_REQUESTS, turns=(LENGTH_ROUNDS - 1) * len(INSTANCES))
    return sampled([on(name) for name in INSTANCES], context, looks, what="accepted lengths")
