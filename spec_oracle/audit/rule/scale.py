"""The check `scale` of rules: large vocabularies and low precision keep the distribution and every id.

The output distribution in each number type is found by enumeration: on a toy instance, after every kind of
drafts that the rule accepts, and of one drafted token at a large vocabulary.
"""

from dataclasses import replace
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.results import (
    CheckResult,
    How,
    Remarks,
    Status,
    failed,
    inconclusive,
    not_asked,
    passed,
)
from spec_oracle.audit.rule.joint import enumerated
from spec_oracle.audit.rule.shapes import enumerated_shape
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.scale import DTYPES
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError
from spec_oracle.exact.errors import NotTracedError
from verifiers import traits_of

VOCABULARIES: Final = (32_000, 151_936)
"""Of Llama 2 and Qwen 2.5."""


_SMALLER: Final = "if it is made for fewer tokens, declare how many: traits = Traits(largest_vocab_size=N)"

_TURNS: Final = 8
"""Times that rows with few possible tokens are tried at a large vocabulary."""

_SECONDS: Final = 5.0
"""Processor time that one large vocabulary may take: a rule may have as many outcomes as there are tokens."""


def scale(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge ids at large vocabularies, and the output distribution in every number type."""
    largest = traits_of(subject.rule).largest_vocab_size
    reason = f"made for vocabularies of at most {largest} tokens" if largest else subject.never_called_alone
    if reason:
        return not_asked(reason)
    kept, refused, notes = list[str](), list[str](), list[str]()
    for dtype in ("float64", *DTYPES[subject.array]):
        try:
            found = _kept_in(subject, context, dtype)
        except SubjectRaisedError as error:
            if dtype == "float64":  # which every rule takes
                raise
            found = inconclusive(str(error))
        except (DecisionError, VerdictError) as error:
            found = failed(str(error), how=How.PROVEN)
        except NotTracedError as error:
            says = f"could not find the output distribution: {error}"
            if dtype in context.shapes.dtypes:
                return inconclusive(f"{dtype}: {says}")
            found = failed(says)
        if found.status is Status.INCONCLUSIVE and dtype == "float64":  # it raised at a large vocabulary
            return _raised(found, context)
        if found.status is Status.PASSED:
            kept.append(dtype)
        elif found.status is Status.INCONCLUSIVE:
            refused.append(f"; {dtype} refused ({found.detail})")
        elif dtype in context.shapes.dtypes:
            return found
        else:
            notes.append(f"not for {dtype} rows: {found.detail}")
    sizes = " and ".join(f"{size:,}" for size in VOCABULARIES)
    detail = f"ids kept at V = {sizes}; distribution kept in {', '.join(kept)}{''.join(refused)}"
    return passed(detail, how=How.REPRESENTED, notes=tuple(notes))


def _raised(found: CheckResult, context: Context) -> CheckResult:
    """Return the result for code that raised at a large vocabulary, which it need not take if it says so."""
    if why := context.shapes.why_not(min(VOCABULARIES)):
        return not_asked(f"{why}: it {found.detail}")
    return replace(found, remarks=Remarks(do=_SMALLER))


def _kept_in(subject: RuleSubject, context: Context, dtype: str) -> CheckResult:
    """Find the output distribution in one number type; raises `NotTracedError` where it cannot be found."""
    for case in subject.in_type("flat", dtype, context.seed):
        law = enumerated(subject, replace(context, exact=False), case)
        if not isinstance(law, EmissionLaw):
            return failed(f"{case}: {law}", how=How.PROVEN)
        tv = float(law.total_variation)
        if tv > max(subject.facts.tolerance, FLOAT32_ROUNDING):
            says = f"total variation {tv:.3g} of one call on a toy instance, {case}"
            return failed(says, how=How.PROVEN, total_variation=tv)
    vocab_size = VOCABULARIES[dtype == "float32"]
    shape = Shape(vocab_size, 1, subject.num_paths, dtype=dtype, kind="flat")
    few = replace(shape, num_paths=1, kind="zero")  # where not every id of the vocabulary can be represented
    for turn, one in enumerate([shape, *[few] * _TURNS]):
        inputs = {"shape": one, "seed": context.seed + turn, "seconds": _SECONDS}
        try:
            return enumerated_shape(subject, context, context.rate, **inputs)
        except NotTracedError as error:
            last = error
    raise last
