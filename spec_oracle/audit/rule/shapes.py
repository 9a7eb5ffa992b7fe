"""The check `shapes`: the output distribution of one call at other sizes and kinds of distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
found by enumeration, and added up.
"""

import math
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.results import CheckResult, How, failed, not_asked
from spec_oracle.audit.rule.subject import VerifierSubject
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import design
from spec_oracle.audit.shapes.extent import Extent
from spec_oracle.audit.shapes.judged import Laws, one_shape
from spec_oracle.contracts import raising
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotTracedError
from verifiers import Drafts, traits_of
from verifiers.errors import InvalidInputError

_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (1,),
    "place": ("first",),
    "dtype": ("float64",),
    "ids": ("int64",),
    "layout": ("contiguous",),
}
"""Axes of a verifier that is enumerated: the rows of a batch are outcomes of decisions there."""


def shapes(subject: VerifierSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    end, laws = time.process_time() + context.shape_seconds, _laws(subject, context)
    traits = traits_of(subject.verifier)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.only, **_ALONE}
    declared = {axis: values for axis, values in context.only.items() if axis not in _ALONE}
    covered, extent = Covered(), Extent(design(**axes), declared)
    try:
        covered.try_design(subject, context, extent.design, laws, end - time.process_time())
        law_of = context.findings.law_of
        wrong = law_of and covered.try_small_sizes(subject, context, end, law_of)
        found = wrong or covered.result(extent, context)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    if covered.wrong:
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, covered.wrong)
    return found


@part
def enumerated_shape(subject: Any, context: Context, rate: float, *, shape: Shape, seed: int) -> CheckResult:
    """Enumerate the verifier at one shape, and compare with the target."""
    del rate
    return one_shape(subject, _laws(subject, context), shape, seed)


def _laws(subject: VerifierSubject, context: Context) -> Laws:
    """Return what enumerates the verifier at a shape."""

    def laws(shape: Shape, drafts: Sequence[Drafts], until: float) -> Sequence[ConditionalLaw]:
        del shape
        names = ("tokens", "draft_probs", "target_probs")
        joined = (np.concatenate([getattr(one, name) for one in drafts]) for name in names)
        try:
            with raising():
                return conditional_laws(subject.verifier, Drafts(*joined), array=context.array, end=until)
        except InvalidInputError as error:
            raise NotTracedError(f"the rule does not take this size: {error}") from None

    return laws
