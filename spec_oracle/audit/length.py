"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.plain import ContractError
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampled_checks import BATCH, Sample, Sampler
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.texts import decoded, unseeded
from spec_oracle.audit.watch import watched
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.systems.contract import Step, System, SystemFactory
from spec_oracle.toy import Instance

ROUNDS = 5
REQUESTS = 4000
UNDECLARED = CheckResult("length", Status.NOT_RUN, "no rule is declared")


def length_of_function(
    subject: Subject, instances: Mapping[str, Instance], *, alpha: float, seed: int
) -> CheckResult:
    """Judge the accepted lengths of a function against the declared rule, on every instance."""
    if subject.rule_at is None:
        return UNDECLARED
    laws = [
        emission_law(verifiers.get(subject.rule_at(instance.draft_length)), instance).accepted_length_pmf
        for instance in instances.values()
    ]
    samples = [Sample.of(instance) for instance in instances.values()]
    sampler = Sampler(subject, seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            before = [sample.lengths.copy() for sample in samples]
            for sample in samples:
                sampler.draw(sample, BATCH)
            yield [
                np.repeat(np.arange(len(sample.lengths)), sample.lengths - old)
                for sample, old in zip(samples, before, strict=True)
            ]

    return watched("length", "accepted length of the declared rule", laws, rounds(), alpha=alpha)


def length_of_system(
    factory: SystemFactory, instances: Mapping[str, Instance], *, alpha: float, seed: int
) -> CheckResult:
    """Judge the accepted lengths of two consecutive calls against rule and drafter as declared.

    The reported length must also be what was emitted. Where texts end early only that is checked.
    """
    systems = [factory(instance, seed) for instance in instances.values()]
    unlimited = all(system.stop_token is None and system.max_tokens is None for system in systems)
    declared = [system for system in systems if system.rule is not None and unlimited]
    laws = [_law_of_two_calls(system) for system in declared] or [np.ones(1)] * len(systems)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            lengths = [_reported(system) for system in declared or systems]
            yield lengths if declared else [0 * pair for pair in lengths]

    return watched("length", "accepted lengths of two calls", laws, rounds(), alpha=alpha)


def _reported(system: System) -> NDArray[np.int64]:
    """Return (tau of call 1, tau of call 2) as one number, int [B]; raises `ContractError` for false ones."""
    _, steps = decoded(system, system.start(unseeded(REQUESTS)), REQUESTS, 2)
    for step in steps:
        _require_true_lengths(step, limited=system.stop_token is not None or system.max_tokens is not None)
    first, second = (step.num_accepted for step in steps)
    return first * (system.instance.draft_length + 1) + np.maximum(second, 0)


def _require_true_lengths(step: Step, *, limited: bool) -> None:
    """Every emission holds the accepted drafts and one more token, which is missing where a text ended."""
    emitted = (step.tokens >= 0).sum(axis=1)
    wrong = (step.num_accepted != emitted - 1) & ~(limited & (step.num_accepted == emitted))
    if wrong.any():
        request = int(np.argmax(wrong))
        raise ContractError(
            f"request {request} reports {step.num_accepted[request]} accepted, emitted {emitted[request]}"
        )


def _law_of_two_calls(system: System) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2), flat: the second call drafts from the text that the first one left."""
    assert system.rule is not None
    rule, instance = verifiers.get(system.rule), system.instance.floats
    law = np.zeros((instance.draft_length + 1,) * 2)
    pmfs: dict[tuple[int, ...], Sequence[float]] = {}
    first: EmissionLaw = emission_law(rule, instance)
    for emission, mass in first.probabilities.items():
        # Models that forget let many texts share one continuation.
        last = emission[-max(instance.target.order, instance.draft.order) :]
        if last not in pmfs:
            pmfs[last] = emission_law(rule, instance.after(emission)).accepted_length_pmf
        law[len(emission) - 1] += mass * np.asarray(pmfs[last])
    return law.reshape(-1)
