"""The check `shapes`: the law of one call at other sizes, number types, layouts and kinds of rows.

At every shape of a covering design (`spec_oracle.audit.shapes`) the law after each likely draft is found,
exactly, and added up. What the shapes came to is the `scope` of the verdict.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status, failed, passed
from spec_oracle.audit.shapes.axes import AXES, MOST_NUMBERS, Shape, design
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.judging import Laws, judged
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.enumeration import TooManyOutcomesError
from spec_oracle.exact.interception import CannotFollowError, TooManyBranchesError, UnrepeatableError
from verifiers import Drafts

SMALL: Final = ((2, 5), (4, 2), (5, 2), (8, 2), (33, 1))
"""Sizes V, L at which all drafts are tried."""


_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (1,),
    "place": ("first",),
    "dtype": ("float64",),
    "ids": ("int64",),
    "layout": ("contiguous",),
}
"""Axes of a verifier that is enumerated: the rows of a batch are outcomes of decisions there."""


_UNFOLLOWED = (CannotFollowError, TooManyBranchesError, UnrepeatableError, TooManyOutcomesError)


# WAY @SHAPES.way(VerifierSubject, of_a_true_law=True)
def shapes(subject: VerifierSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape."""
    del alpha  # nothing is drawn
    end = time.process_time() + context.shape_seconds

    def laws(shape: Shape, drafts: Sequence[Drafts]) -> Sequence[ConditionalLaw]:
        del shape
        names = ("tokens", "draft_probs", "target_probs")
        together = (np.concatenate([getattr(one, name) for one in drafts]) for name in names)
        with raising():
            return conditional_laws(subject.verifier, Drafts(*together), array=context.array, end=end)

    largest = getattr(subject.verifier, "largest_vocab_size", None) or math.inf
    paths = (1,) if getattr(subject.verifier, "single_path", False) else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= largest)
    covered = Covered()
    shapes = design(MOST_NUMBERS, **_ALONE, vocab_size=sizes, num_paths=paths)
    _try_all(subject, context, shapes, laws, covered, end)
    return _small(subject, context, covered, end) or _result(context, covered, None)


def _small(subject: Any, context: Context, covered: Covered, end: float) -> CheckResult | None:
    """Find the law of all emissions at small sizes; return a failure, None where there is none."""
    law_of = None if context.findings is None else context.findings.law_of
    for vocab, length in SMALL:
        if law_of is None or time.process_time() > end:
            break
        instance = panel(vocab, length, subject.num_paths, context.seed)["flat"]
        try:
            distance = float(law_of(instance).total_variation)
        except (*_UNFOLLOWED, SubjectRaisedError) as error:
            covered.left_out[_reason(error)] += 1
            continue
        shape = Shape(vocab, length, subject.num_paths)
        if distance > subject.facts.tolerance:
            covered.small_wrong.append(shape)
            _keep(context, covered)
            return replace(failed(f"total variation {distance:.3g} at {shape}"), total_variation=distance)
        covered.small.append(shape)
    return None


def _keep(context: Context, covered: Covered, scope: tuple[str, ...] = ()) -> None:
    """Leave at the context what was covered."""
    if context.findings is not None:
        context.findings = replace(
            context.findings, scope=(*context.findings.scope, *scope), coverage=covered.coverage
        )


def _try_all(  # noqa: PLR0917
    subject: Any,
    context: Context,
    shapes: Sequence[Shape],
    laws: Laws,
    covered: Covered,
    end: float = math.inf,
) -> None:
    """Judge shapes until one is a defect, or time is over."""
    for seed, shape in enumerate(shapes[: context.most_shapes], start=context.seed):
        if time.process_time() > end or covered.lossy:
            break
        tree = tree_of(shape, seed, subject.drafting)
        try:
            found = judged(shape, tree, laws, explained=subject.facts.tolerance)
        except (*_UNFOLLOWED, SubjectRaisedError) as error:
            if time.process_time() > end:
                break
            covered.left_out[_reason(error)] += 1
            covered.not_followed.append((shape, tree))
        else:
            covered.shapes.append(replace(found, seed=seed))


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(" (at ")[0][:100]


def _result(context: Context, covered: Covered, drawn: CheckResult | None) -> CheckResult:
    """Put together what was found, and leave the scope at the context."""
    worst = covered.lossy
    if worst is not None:
        _keep(context, covered)
        return replace(failed(str(worst)), total_variation=worst.total_variation)
    scope = covered.scope if covered.shapes else ()
    if drawn is not None:
        scope = (*scope, f"{drawn.detail}, {drawn.draws} plain draws")
    _keep(context, covered, scope)
    if drawn is None and not covered.shapes:
        return CheckResult("", Status.INCONCLUSIVE, f"no shape: {', '.join(covered.left_out) or 'no time'}")
    proven = f"law proven at {len(covered.shapes)} shapes" if covered.shapes else ""
    if drawn is None:
        return passed(proven)
    return replace(drawn, detail="; ".join(filter(None, (proven, drawn.detail))))
