"""Figures of one call on each instance: tokens per call, the optimum, and the law of the accepted length."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from spec_oracle.audit.built_in_rules import accepted_length, accepts
from spec_oracle.audit.reports import InstanceFigures
from spec_oracle.audit.results import Findings
from spec_oracle.audit.subject import Subject
from spec_oracle.exact.call import paths_of
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings


def figures_of(subject: Subject, found: Findings) -> tuple[InstanceFigures, ...]:
    """Return the figures of every instance whose law was found."""
    best = block_transport_optimum if subject.carries_state else multi_path_optimum
    drafting = getattr(subject, "drafting", Siblings.INDEPENDENT)
    elsewhere = found.elsewhere and found.elsewhere.optimum_of
    optimum_of = elsewhere or partial(_optimum, best=best, drafting=drafting)

    def of_rule(instance: Instance) -> tuple[float, ...]:
        """Return the law of the accepted length of the declared rule, () if it does not accept such paths."""
        # Where the optimum is one of trees, the drafts are no paths.
        if elsewhere or subject.facts.rule_at is None:
            return ()
        rule = subject.facts.rule_at(instance.draft_length)
        is_accepted = accepts(rule, paths_of(instance, drafting))
        return accepted_length(rule, instance, drafting) if is_accepted else ()

    return tuple(
        InstanceFigures(
            name,
            (instance := found.instances[name]).digest,
            float(law.block_efficiency),
            optimum_of(instance),
            tuple(map(float, law.accepted_length_pmf)),
            of_rule(instance),
        )
        for name, law in found.laws.items()
    )


@lru_cache(maxsize=256)
def _optimum(instance: Instance, best: Callable[..., Any], drafting: Siblings) -> float:
    """Return the most tokens per call on one instance; subjects of one audit share it."""
    return float(best(instance, drafting=drafting).value)
