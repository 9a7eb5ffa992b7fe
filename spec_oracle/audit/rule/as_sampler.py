"""Checks of a verifier as of a sampler: called with a random generator, by code that sees only results."""

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rule.subject import VerifierSubject
from spec_oracle.audit.sampler import length as accepted
from spec_oracle.audit.sampler import scale as large
from spec_oracle.audit.sampler.bad_input import on_broken_input
from verifiers import traits_of


def length(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge whether the accepted length has the law of the declared rule."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return accepted.length(subject, context)


def bad_input(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge what comes of extreme uniforms and of input that is no law."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    return on_broken_input(subject, context)


def scale(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision."""
    largest = traits_of(subject.verifier).largest_vocab_size
    reason = f"made for vocabularies of at most {largest} tokens" if largest else subject.never_called_alone
    return not_asked(reason) if reason else large.scale(subject, context)
