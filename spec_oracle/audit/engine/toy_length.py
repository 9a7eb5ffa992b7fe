"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.toy_subject import SystemSubject
from spec_oracle.audit.engine.toy_texts import decoded, unseeded
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.steps import Step, System
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.toy import Instance

ROUNDS = 5


REQUESTS = 4000


# WAY @LENGTH.way(SystemSubject)
def length(subject: SystemSubject, context: Context) -> CheckResult:
    """Judge the accepted lengths of two consecutive calls against rule and drafter as declared.

    The reported length must also be what was emitted. Where texts end early only that is checked.
    """
    systems = [subject.factory(instance, context.seed) for instance in subject.toys(context).values()]
    unlimited = all(system.stop_token is None and system.max_tokens is None for system in systems)
    declared = [system for system in systems if system.rule is not None and unlimited]
    laws = [_law_of_two_calls(str(system.rule), system.instance.floats) for system in declared] or [
        np.ones(1)
    ] * len(systems)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            lengths = [_reported(system) for system in declared or systems]
            yield lengths if declared else [0 * pair for pair in lengths]

    return watched("accepted lengths of two calls", laws, rounds(), alpha=alpha)


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


def _law_of_two_calls(name: str, instance: Instance) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2), flat: the second call drafts from the text that the first one left."""
    rule = verifiers.get(name)
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
