"""The law of one call in figures, instance by instance: tokens per call, accepted lengths, the optimum."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import verifiers
from spec_oracle.audit.reports import InstanceFigures
from spec_oracle.audit.results import Findings
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.exact import emission_law
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.toy import Instance
from verifiers import Drafting, StatefulVerifier


def figures_of(subject: Any, found: Findings) -> tuple[InstanceFigures, ...]:
    """Return the figures of every instance whose law was found."""
    carries = isinstance(subject, VerifierSubject) and isinstance(subject.verifier, StatefulVerifier)
    best = block_transport_optimum if carries else multi_path_optimum
    drafting = getattr(subject, "drafting", Drafting.INDEPENDENT)
    rule_at = subject.facts.rule_at
    return tuple(
        InstanceFigures(
            name,
            (instance := found.instances[name]).digest,
            float(law.block_efficiency),
            _optimum(instance, best, drafting),
            tuple(map(float, law.accepted_length_pmf)),
            _of_rule(instance, rule_at(instance.draft_length)) if rule_at else (),
        )
        for name, law in found.laws.items()
    )


@lru_cache(maxsize=256)
def _optimum(instance: Instance, best: Callable[..., Any], drafting: Drafting) -> float:
    """Return the most tokens per call on one instance; subjects of one audit share it."""
    return float(best(instance, drafting=drafting).value)


@lru_cache(maxsize=256)
def _of_rule(instance: Instance, rule: str) -> tuple[float, ...]:
    """Return the law of the accepted length of a rule."""
    return tuple(map(float, emission_law(verifiers.get(rule), instance).accepted_length_pmf))
