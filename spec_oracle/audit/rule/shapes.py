"""The check `shapes` of rules: the output distribution of one call at other sizes and kinds of drafts.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft of
K paths is found by enumeration, and added up. At small sizes all drafts are tried: K paths, trees of one to
three tokens, trees whose paths end early, other fan-outs; and one kind of each in float32.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import design
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.draftings import PATHS, ToyDrafts
from spec_oracle.audit.experiment import Experiment, TracedOutcome, numbered
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, remarked
from spec_oracle.audit.rule.joint import enumerated
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.axes import AXES
from spec_oracle.audit.shapes.cells import likely_drafts
from spec_oracle.audit.shapes.coverage import Extent, result_of, said_of
from spec_oracle.audit.shapes.places import experiment_at, not_sampled, traced_at
from spec_oracle.audit.shapes.trees import Place, Shape
from spec_oracle.audit.shapes.tried import TriedInTurn, in_turn
from spec_oracle.contracts import raising
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotTracedError
from verifiers import Drafts, traits_of
from verifiers.errors import InvalidInputError

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
    extent, tried = _extent(subject, context), TriedInTurn[Place](partial(at_place, subject))
    others = TriedInTurn[ToyDrafts](partial(after_all_drafts, subject, replace(context, exact=False)))
    until = time.process_time() + _OF_VALUES * context.budget
    try:
        tried.trace_all(in_turn(tried, extent.design, subject.drafting, context, until=until, end=end))
        if not tried.wrong:
            others.trace_all(other_sizes(others, subject, context, end))
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    found = result_of(tried, extent, context)
    if wrong := tried.wrong:
        inputs = {"shape": wrong.shape, "seed": wrong.seed}
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, inputs)
    if others.wrong:
        return said_of(others.traced[others.wrong])
    if found.status is not Status.PASSED:
        return found
    if open_ := [f"{case}: {error}" for case, error in others.raised.items() if _is_asked(case, context)]:
        return inconclusive(open_[0])
    lines = [f"other sizes: {'; '.join(map(str, others.traced))}"]
    if others.not_traced:
        lines.append(f"other sizes, not run in this time: {'; '.join(map(str, others.not_traced))}")
    count = len(others.traced)
    detail = f"{found.detail}; output distribution exact at {count} other sizes and kinds of drafts"
    return remarked(replace(found, detail=detail), scope=(*found.remarks.scope, *lines))


def _is_asked(case: ToyDrafts, context: Context) -> bool:
    """Whether the rule must take all sizes of a case: none is outside those that are declared."""
    sizes = {axis: getattr(case.instance, axis) for axis in ("vocab_size", "draft_length", "num_paths")}
    return all(size in context.shapes.only.get(axis, (size,)) for axis, size in sizes.items())


def _extent(subject: RuleSubject, context: Context) -> Extent:
    """Return the design of the shapes that the rule takes, and what of them is declared."""
    traits = traits_of(subject.rule)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.shapes.only, **_ALONE}
    declared = {axis: values for axis, values in context.shapes.only.items() if axis not in _ALONE}
    return Extent(design(**axes), declared)


def other_sizes(
    others: TriedInTurn[ToyDrafts], subject: RuleSubject, context: Context, end: float
) -> Iterator[tuple[ToyDrafts, float]]:
    """Yield those of `shapes`, each with its time: small sizes of K paths and of trees, then few in float32.

    At the ``end`` those of K paths are left out, since the design has others; all others some seconds later.
    """
    seconds, seed = min(_SECONDS, context.shape_seconds / 4), context.seed
    last = max(end, time.process_time() + _SECONDS_ON_TREES)
    largest = traits_of(subject.rule).largest_vocab_size or math.inf
    for vocab, length in SMALL:
        if vocab <= largest and (now := time.process_time()) <= end:
            toy = panel(vocab, length, subject.num_paths, seed)["flat"]
            yield ToyDrafts("flat", "flat", PATHS, toy, subject.paths(toy)), now + seconds
    in_float32 = "float32" in context.shapes.dtypes
    few = subject.in_type("good-draft", "float32", seed) if in_float32 else ()
    for case in (*later_sizes(subject.on_trees, seed), *few):
        if (now := time.process_time()) <= last:
            yield case, now + seconds
        else:
            others.not_traced.append(case)


def after_all_drafts(subject: RuleSubject, context: Context, case: ToyDrafts) -> Experiment:
    """Return the experiment of one call after all drafts of a case, whose outcomes are enumerated."""
    tokens = case.instance.draft_length + 1
    rounding = FLOAT32_ROUNDING if case.dtype == "float32" else 0.0

    def trace(_: int, end: float) -> TracedOutcome:
        law = enumerated(subject, context, case, end)
        if isinstance(law, str):
            raise VerdictError(f"{case}: {law}")
        return TracedOutcome({}, total_variation=float(law.total_variation))

    what, target = f"{case}, instance {case.toy!r}", case.instance.floats.target.joint(tokens)
    allowed = max(subject.facts.explained(tokens), rounding)
    return numbered(what, f"{tokens} tokens", target, not_sampled, trace=trace, allowed=allowed)


@part
def enumerated_shape(
    subject: RuleSubject, context: Context, rate: float, *, shape: Shape, seed: int, seconds: float = math.inf
) -> CheckResult:
    """Enumerate the rule at one shape, in so much processor time, and compare with the target."""
    del context, rate
    place, end = Place(shape, seed, subject.drafting), time.process_time() + seconds
    return said_of(traced_at(at_place(subject, place), end))


def at_place(subject: RuleSubject, place: Place) -> Experiment:
    """Return the experiment of one call at a place, whose outcomes are enumerated."""
    return experiment_at(place, partial(_laws, subject), subject.facts)


def _laws(subject: RuleSubject, place: Place, until: float) -> Sequence[ConditionalLaw]:
    """Enumerate the rule after each likely draft of a place."""
    drafts = Drafts.of_paths(*likely_drafts(place.tree).arrays)
    array, dtype = subject.array, place.shape.dtype
    try:
        with raising():
            return conditional_laws(subject.rule, drafts, array=array, dtype=dtype, end=until)
    except InvalidInputError as error:
        raise NotTracedError(f"the rule does not take this size: {error}") from None
