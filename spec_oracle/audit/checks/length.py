"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed
from spec_oracle.audit.draws import Sample, Sampler
from spec_oracle.audit.evidence.engine_steps import (
    accepted_law,
    accepted_pair,
    declared_instance,
    drawn_steps,
    enumerated_steps,
    showing,
)
from spec_oracle.audit.evidence.findings import NoEvidenceError
from spec_oracle.audit.evidence.served import FIRST_LOOK
from spec_oracle.audit.evidence.watched import watched
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.plain import ContractError
from spec_oracle.systems.contract import Step, System
from spec_oracle.systems.texts import decoded, unseeded
from spec_oracle.toy import Instance

INSTANCES = ("flat", "good-draft", "reversed")
ROUNDS = 5
BATCH = 1000
REQUESTS = 4000
SESSIONS = 500

LENGTH = Check(
    "length", "is the accepted length that of its rule, declared or identified?", Fraction(10, 100)
)


def _by_findings(subject: Any, bench: Bench) -> CheckResult | None:
    """Return what the evidence of `joint` says already, or why there is nothing to ask."""
    if bench.findings is not None and bench.findings.length is not None:
        return bench.findings.length
    if subject.facts.rule_at is None:
        return CheckResult("length", Status.NOT_APPLICABLE, "no rule is declared")
    return None


@LENGTH.way(
    VerifierSubject,
    FunctionSubject,
    UniformsSubject,
    KeyedSubject,
    requests=ROUNDS * BATCH * len(INSTANCES),
    of_a_true_law=True,
    known=_by_findings,
)
def _by_draws(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge the accepted lengths against the declared rule, on every instance."""
    rule_at = subject.facts.rule_at
    instances = [panel(3, 3, subject.num_paths, bench.seed)[name] for name in INSTANCES]
    laws = [
        emission_law(verifiers.get(rule_at(instance.draft_length)), instance).accepted_length_pmf
        for instance in instances
    ]
    samples = [Sample.of(instance) for instance in instances]
    sampler = Sampler(subject.code, bench.seed)

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


@LENGTH.way(SystemSubject)
def _by_steps(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge the accepted lengths of two consecutive calls against rule and drafter as declared.

    The reported length must also be what was emitted. Where texts end early only that is checked.
    """
    systems = [subject.factory(instance, bench.seed) for instance in subject.toys(bench).values()]
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


@LENGTH.way(ServerSubject)
def _by_answers(subject: ServerSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether the counts of drafts that came with the texts of `joint` are possible.

    Nothing is known of the drafter, so no law is declared. A call emits one token more than it accepts.
    """
    del bench, alpha
    texts = subject.served.texts
    if not texts.found:
        texts.draw(FIRST_LOOK)
    if texts.drafts.accepted is None:
        return CheckResult(
            "", Status.NOT_APPLICABLE, "the server does not report accepted tokens with its texts"
        )
    if texts.odd_counts:
        return failed(texts.odd_counts, draws=len(texts.found))
    after_first = sum(len(tokens) - 1 for _, tokens in texts.found)
    mean = after_first / max(1, after_first - texts.drafts.accepted)
    return passed(
        f"{texts.drafts.accepted:.0f} tokens accepted: {mean:.3g} tokens a call", draws=len(texts.found)
    )


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


@LENGTH.way(EngineSubject, known=_by_findings)
def _by_steps_of_engines(subject: EngineSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge the accepted lengths of two calls against rule and drafter as declared: enumerated, or drawn."""
    cases = [case for case in showing(subject.cases(bench)) if case.code.has("draft_probs")]
    if not cases:
        return CheckResult("", Status.NOT_APPLICABLE, "it does not say what its drafter is meant to do")
    if any(case.code.endings for case in cases):
        return CheckResult("", Status.NOT_APPLICABLE, "calls end early, where a text meets its stop token")
    instances = [declared_instance(case.code, case.prompt) for case in cases]
    laws = [_law_of_two_calls(case.code.engine.rule, at) for case, at in zip(cases, instances, strict=True)]
    widths = [instance.draft_length + 1 for instance in instances]
    try:
        found = [
            accepted_law(enumerated_steps(case), width) for case, width in zip(cases, widths, strict=True)
        ]
    except NoEvidenceError:
        drawn = [[accepted_pair(steps) for steps in drawn_steps(case, SESSIONS)] for case in cases]
        cells = [
            np.array([first * width + second for first, second in pairs])
            for pairs, width in zip(drawn, widths, strict=True)
        ]
        return watched("accepted lengths of two calls", laws, [cells], alpha=alpha)
    gap = max(float(abs(mine - law).sum() / 2) for mine, law in zip(found, laws, strict=True))
    told = (
        f"accepted lengths of two calls are off those of the declared rule by a total variation of {gap:.3g}"
    )
    return failed(told) if gap > 2 * subject.facts.tolerance else passed(told)


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
