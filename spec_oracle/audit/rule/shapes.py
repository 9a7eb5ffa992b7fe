"""The check `shapes` of rules: the output distribution of one call at other sizes and kinds of drafts.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft of
K paths is found by enumeration, and added up. At small sizes all drafts are tried: K paths, trees of one to
three tokens, trees whose paths end early, other fan-outs; and one kind of each in float32.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import design
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.draftings import PATHS, ToyDrafts
from spec_oracle.audit.failing_inputs import with_inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, remarked
from spec_oracle.audit.rule.enumeration import at_place
from spec_oracle.audit.rule.joint import enumerated
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.axes import AXES
from spec_oracle.audit.shapes.coverage import Extent, result_of
from spec_oracle.audit.shapes.tried import TriedShapes
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.errors import NotTracedError
from verifiers import traits_of

SMALL: Final = ((4, 2), (5, 2), (2, 5), (33, 1), (8, 2))
"""Sizes V, L at which all drafts of K paths are tried, those of few drafts first."""

_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (1,),
    "place": ("first",),
    "dtype": ("float64",),
    "ids": ("int64",),
    "layout": ("contiguous",),
}
"""Axes of a verifier that is enumerated: the rows of a batch are outcomes of decisions there."""

_OF_VALUES: Final = 1 / 4
"""Share of the budget for the shapes of the design that have every value of every axis."""

_SECONDS: Final = 2.0
"""Processor time that one of the small sizes may take, and no more than a quarter of that of `shapes`."""

_SECONDS_ON_TREES: Final = 20.0
"""Processor time after which no further kind of trees is begun: those with the fewest trees come first."""


def shapes(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape of the design, and then after all drafts of small sizes."""
    end = time.process_time() + context.shape_seconds
    tried = TriedShapes(subject.drafting, partial(at_place, subject))
    extent = _extent(subject, context)
    until = time.process_time() + _OF_VALUES * context.budget
    try:
        tried.trace_design(extent.design, context, until, end)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    if tried.wrong:
        found = result_of(tried, extent, context)
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, tried.wrong_inputs)
    wrong, right, too_slow = _after_all_drafts(subject, context, end)
    found = result_of(tried, extent, context)
    if wrong and (wrong.status is Status.FAILED or found.status is Status.PASSED):
        found = wrong
    if found.status is not Status.PASSED:
        return found
    lines = [f"other sizes: {'; '.join(right)}"]
    lines += [f"other sizes, not run in this time: {'; '.join(too_slow)}"] if too_slow else []
    detail = f"{found.detail}; output distribution exact at {len(right)} other sizes and kinds of drafts"
    return remarked(replace(found, detail=detail), scope=(*found.remarks.scope, *lines))


def _after_all_drafts(
    subject: RuleSubject, context: Context, end: float
) -> tuple[CheckResult | None, list[str], list[str]]:
    """Enumerate the rule at small sizes: what is wrong, the sizes that are right, and those not run in time.

    A size at which it raises leaves the check open, unless others are declared to be all that it takes.
    """
    right, too_slow, context = list[str](), list[str](), replace(context, exact=False)
    open_: CheckResult | None = None
    seconds = min(_SECONDS, context.shape_seconds / 4)
    last = max(end, time.process_time() + _SECONDS_ON_TREES)
    for case in other_sizes(subject, context):
        is_of_paths = case.kind == PATHS and case.dtype == "float64"
        if is_of_paths and time.process_time() > end:  # at such sizes the design has others
            continue
        if time.process_time() > last:
            too_slow.append(str(case))
            continue
        try:
            law = enumerated(subject, context, case, time.process_time() + seconds)
        except NotTracedError:
            too_slow.append(str(case))
            continue
        except SubjectRaisedError as error:
            sizes = {
                axis: getattr(case.instance, axis) for axis in ("vocab_size", "draft_length", "num_paths")
            }
            if all(size in context.shapes.only.get(axis, (size,)) for axis, size in sizes.items()):
                open_ = open_ or inconclusive(f"{case}: {error}")
            continue
        if isinstance(law, str):
            return failed(f"{case}: {law}", how=How.PROVEN), right, too_slow
        tv, instance = float(law.total_variation), case.instance
        rounding = FLOAT32_ROUNDING if case.dtype == "float32" else 0.0
        if tv > max(subject.facts.explained(instance.draft_length + 1), rounding):
            says = f"total variation {tv:.3g} at {case}, instance {case.toy!r}"
            return failed(says, how=How.PROVEN, total_variation=tv), right, too_slow
        right.append(str(case))
    return open_, right, too_slow


def _extent(subject: RuleSubject, context: Context) -> Extent:
    """Return the design of the shapes that the rule takes, and what of them is declared."""
    traits = traits_of(subject.rule)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.shapes.only, **_ALONE}
    declared = {axis: values for axis, values in context.shapes.only.items() if axis not in _ALONE}
    return Extent(design(**axes), declared)


def other_sizes(subject: RuleSubject, context: Context) -> Iterator[ToyDrafts]:
    """Yield those of `shapes`: small sizes of K paths and of trees, then few in float32."""
    largest = traits_of(subject.rule).largest_vocab_size or math.inf
    for vocab, length in SMALL:
        if vocab <= largest:
            toy = panel(vocab, length, subject.num_paths, context.seed)["flat"]
            yield ToyDrafts("flat", "flat", PATHS, toy, subject.paths(toy))
    yield from later_sizes(subject.on_trees, context.seed)
    if "float32" in context.shapes.dtypes:
        yield from subject.in_type("good-draft", "float32", context.seed)
