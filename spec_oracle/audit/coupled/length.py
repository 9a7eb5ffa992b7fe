"""The check `length` of coupled rules: the accepted length is that of list coupling.

Where `joint` found the same tokens as those of a built-in rule, it found the same lengths. Else the lengths
are sampled, if the rule declares one (``rule = "coupled/list"``): a target that is sampled with fresh noise
is lossless, and accepts fewer drafts.
"""

from collections.abc import Iterator

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.reference import races_all
from spec_oracle.audit.coupled.subject import CoupledSubject, names, requests
from spec_oracle.audit.panel import instances_for, main_instances
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.exact.coupling import coupled_emission_law


def length(subject: CoupledSubject, context: Context) -> CheckResult:
    """Return what `joint` found already, or else judge sampled lengths against the declared rule's."""
    found, declared = context.findings, subject.declared
    if found.length is not None and declared in ("", found.rule):
        return found.length
    if not declared:
        return not_asked(f"no rule is declared, such as rule = {names()[0]!r}")
    every = instances_for(context, subject.num_paths)
    instances = [every[name] for name in main_instances(every)]
    laws = [
        np.array(coupled_emission_law(one, all_race=races_all(declared), exact=False).accepted_length_pmf)
        for one in instances
    ]
    rng = context.stream("coupled/length")

    def rounds() -> Iterator[list[Integers]]:
        for _ in range(effort.COUPLED_ROUNDS):
            calls = (requests(one, effort.COUPLED_ROUND, rng) for one in instances)
            yield [subject.code(*call).lengths - 1 for call in calls]

    what = f"accepted lengths beside the distribution of {declared}, as declared"
    return judge_rounds(what, laws, rounds(), alpha=context.rate)
