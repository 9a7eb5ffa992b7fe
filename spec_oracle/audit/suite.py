"""The suites: the checks of each kind of subject, from top to bottom, and the function that runs each.

What a check asks, and its share of the error rate, is in `spec_oracle.audit.checks`.
"""

from collections.abc import Mapping
from functools import wraps
from typing import Final

from spec_oracle.audit.checks import (
    CHECKS,
    Run,
    Suite,
    run_check,
    skip_if_declared,
    skip_if_lossy,
    skip_if_wrong,
)
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.batch import batch as engine_batch
from spec_oracle.audit.engine.calls import calls as engine_calls
from spec_oracle.audit.engine.draft_law import draft_law as engine_draft_law
from spec_oracle.audit.engine.joint import joint as engine_joint
from spec_oracle.audit.engine.length import length as engine_length
from spec_oracle.audit.engine.logprobs import logprobs as engine_logprobs
from spec_oracle.audit.engine.long_texts import long_texts as engine_long_texts
from spec_oracle.audit.engine.streams import streams as engine_streams
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rule.batch import batch as rule_batch
from spec_oracle.audit.rule.calls import calls as rule_calls
from spec_oracle.audit.rule.joint import joint as rule_joint
from spec_oracle.audit.rule.length import length as rule_length
from spec_oracle.audit.rule.scale import scale as rule_scale
from spec_oracle.audit.rule.shapes import shapes as rule_shapes
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.bad_input import bad_input as sampler_bad_input
from spec_oracle.audit.sampler.bad_input import on_broken_input
from spec_oracle.audit.sampler.batch import batch as sampler_batch
from spec_oracle.audit.sampler.calls import calls as sampler_calls
from spec_oracle.audit.sampler.inputs_kept import inputs_kept as sampler_inputs_kept
from spec_oracle.audit.sampler.inputs_kept import paths_kept
from spec_oracle.audit.sampler.joint import joint as sampler_joint
from spec_oracle.audit.sampler.length import length as sampler_length
from spec_oracle.audit.sampler.scale import scale as sampler_scale
from spec_oracle.audit.sampler.shapes import shapes as sampler_shapes
from spec_oracle.audit.sampler.streams import streams as sampler_streams
from spec_oracle.audit.subject import Subject


def of_one_call(run: Run) -> Run:
    """Run a check of single calls on a rule, unless it is never called alone."""

    @wraps(run)
    def asked(subject: RuleSubject, context: Context) -> CheckResult:
        reason = subject.never_called_alone
        return not_asked(reason) if reason else run(subject, context)

    return asked


RULE: Final[Suite] = {
    "joint": rule_joint,
    "shapes": skip_if_declared(of_one_call(rule_shapes)),
    "length": skip_if_lossy(rule_length),
    "calls": rule_calls,
    "batch": rule_batch,
    "bad-input": of_one_call(on_broken_input),
    "inputs-kept": of_one_call(paths_kept),
    "scale": skip_if_declared(rule_scale),
}
"""Rules that take every random decision from a source."""

SAMPLER: Final[Suite] = {
    "joint": sampler_joint,
    "shapes": skip_if_declared(sampler_shapes),
    "length": skip_if_lossy(sampler_length),
    "calls": skip_if_wrong(sampler_calls),
    "streams": skip_if_wrong(sampler_streams),
    "batch": skip_if_wrong(sampler_batch),
    "bad-input": sampler_bad_input,
    "inputs-kept": sampler_inputs_kept,
    "scale": skip_if_declared(sampler_scale),
}
"""Functions of the sampler contract."""

ENGINE: Final[Suite] = {
    "joint": engine_joint,
    "length": engine_length,
    "calls": engine_calls,
    "long-texts": skip_if_lossy(engine_long_texts),
    "logprobs": engine_logprobs,
    "draft-law": engine_draft_law,
    "streams": skip_if_wrong(engine_streams),
    "batch": engine_batch,
}
"""Whole engines."""

SUITES: Final[Mapping[str, Suite]] = {
    "rule": RULE,
    "sampler": SAMPLER,
    "engine": ENGINE,
}
"""By the kind of subject."""


def result_of(name: str, subject: Subject, context: Context) -> CheckResult:
    """Run one check of the suite of a subject's kind."""
    return run_check(CHECKS[name], SUITES[subject.kind], subject, context)
