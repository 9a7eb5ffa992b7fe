"""The check `shapes` of rules: the output distribution of one call at other sizes and kinds of drafts.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft of
K paths is found by enumeration, and added up. At small sizes all drafts are tried: K paths, trees of one to
three tokens, trees whose paths end early, other fan-outs; and one kind of each in float32.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.draftings import DEPTH, PATHS, ToyDrafts
from spec_oracle.audit.experiment import Experiment
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, remarked
from spec_oracle.audit.rule.joint import enumerated
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.axes import AXES, SPARSE, Shape, design
from spec_oracle.audit.shapes.coverage import Extent, result_of
from spec_oracle.audit.shapes.places import Place, TriedShapes, at_one_place, experiment_at
from spec_oracle.contracts import raising
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotInTimeError, NotTracedError, require_time
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

_OF_VALUES: Final = 1 / 4
"""Share of the budget for the shapes of the design that have every value of every axis."""

SMALL: Final = ((4, 2), (5, 2), (2, 5), (33, 1), (8, 2))
"""Sizes V, L at which all drafts of K paths are tried, those of few drafts first."""

_SECONDS: Final = 2.0
"""Processor time that one of the small sizes may take."""

_SECONDS_ON_TREES: Final = 20.0
"""Processor time after which no further kind of trees is begun: those with the fewest trees come first."""

_LONGER: Final = 2.0
"""So many times the time that was too little for a smaller size: then a larger one is tried."""


@dataclass
class SlowSizes:
    """Sizes for which the time was too little, and how long it was, in seconds.

    What is as large in every way has at least as many outcomes, and is not tried in the same time. ``()`` is
    a size of which nothing is known.
    """

    known: list[tuple[tuple[int, ...], float]] = field(default_factory=list)

    def add(self, size: tuple[int, ...], seconds: float) -> None:
        """Take note of a size that could not be run in so many seconds."""
        if size:
            self.known.append((size, seconds))

    def has(self, size: tuple[int, ...], seconds: float) -> bool:
        """Whether a size would take more than so many seconds, by a smaller one that took too long."""
        return bool(size) and any(
            seconds < _LONGER * too_little
            and all(own >= least for own, least in zip(size, smaller, strict=True))
            for smaller, too_little in self.known
        )


def shapes(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape of the design, and then after all drafts of small sizes."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    end = time.process_time() + context.shape_seconds
    make = partial(_experiment, subject, SlowSizes())
    tried, extent = TriedShapes(subject.drafting, make), _extent(subject, context)
    until = time.process_time() + _OF_VALUES * context.budget
    try:
        tried.trace_design(extent.design, context, until, end)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    if tried.wrong:
        found = result_of(tried, extent, context)
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, tried.wrong_inputs)
    wrong, right, too_slow = _after_all_drafts(subject, context, end)
    found = wrong or result_of(tried, extent, context)
    if found.status is not Status.PASSED:
        return found
    lines = [f"other sizes: {'; '.join(right)}"]
    lines += [f"other sizes, not run in this time: {'; '.join(too_slow)}"] if too_slow else []
    detail = f"{found.detail}; output distribution exact at {len(right)} other sizes and kinds of drafts"
    return remarked(replace(found, detail=detail), scope=(*found.remarks.scope, *lines))


def _after_all_drafts(
    subject: RuleSubject, context: Context, end: float
) -> tuple[CheckResult | None, list[str], list[str]]:
    """Enumerate the rule at small sizes: a failure, the sizes that are right, and those not run in time."""
    right, too_slow, context = list[str](), list[str](), replace(context, exact=False)
    slow = SlowSizes()
    last = max(end, time.process_time() + _SECONDS_ON_TREES)
    for case in _small(subject, context):
        is_of_paths = case.kind == PATHS and case.dtype == "float64"
        if is_of_paths and time.process_time() > end:  # at such sizes the design has others
            continue
        if time.process_time() > last or slow.has(_size_of_trees(case), _SECONDS):
            too_slow.append(str(case))
            continue
        ((_, law),) = enumerated(subject, context, [case], time.process_time() + _SECONDS)
        if not law:
            slow.add(_size_of_trees(case), _SECONDS)
            too_slow.append(str(case))
            continue
        if isinstance(law, str):
            return failed(f"{case}: {law}", how=How.PROVEN), right, too_slow
        tv, instance = float(law.total_variation), case.instance
        rounding = FLOAT32_ROUNDING if case.dtype == "float32" else 0.0
        if tv > max(subject.facts.explained(instance.draft_length + 1), rounding):
            says = f"total variation {tv:.3g} at {case}, instance {case.toy!r}"
            return failed(says, how=How.PROVEN, total_variation=tv), right, too_slow
        right.append(str(case))
    return None, right, too_slow


def _size_of_trees(case: ToyDrafts) -> tuple[int, ...]:
    """Return how many trees there are, their places, and V; nothing is known of K paths, () for these."""
    if case.kind == PATHS:
        return ()
    return *draft_table(case.instance.floats, case.drafting).law.tokens.shape, case.instance.vocab_size


def _extent(subject: RuleSubject, context: Context) -> Extent:
    """Return the design of the shapes that the rule takes, and what of them is declared."""
    traits = traits_of(subject.rule)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.shapes.only, **_ALONE}
    declared = {axis: values for axis, values in context.shapes.only.items() if axis not in _ALONE}
    return Extent(design(**axes), declared)


@part
def enumerated_shape(
    subject: Any, context: Context, rate: float, *, shape: Shape, seed: int, end: float = math.inf
) -> CheckResult:
    """Enumerate the verifier at one shape, until the processor time ``end``, and compare with the target."""
    del context, rate
    return at_one_place(_experiment(subject, SlowSizes(), Place(shape, seed, subject.drafting)), end=end)


def _experiment(subject: RuleSubject, slow: SlowSizes, place: Place) -> Experiment:
    """Return the experiment of one call at a place, whose outcomes are enumerated."""
    return experiment_at(place, partial(_laws, subject, slow), subject.facts)


def _laws(subject: RuleSubject, slow: SlowSizes, place: Place, until: float) -> Sequence[ConditionalLaw]:
    """Enumerate the verifier after each likely draft of a place, unless a smaller one took too long."""
    shape, seconds = place.shape, until - time.process_time()
    size = (shape.kind not in SPARSE, shape.vocab_size, shape.draft_length, shape.num_paths)
    if slow.has(size, seconds):
        require_time(-math.inf)
    try:
        with raising():
            how = {"array": subject.array, "dtype": shape.dtype}
            return conditional_laws(subject.rule, Drafts.of_paths(*place.batch.arrays), **how, end=until)
    except NotInTimeError:
        slow.add(size, seconds)
        raise
    except InvalidInputError as error:
        raise NotTracedError(f"the rule does not take this size: {error}") from None


def _small(subject: RuleSubject, context: Context) -> Iterator[ToyDrafts]:
    """Yield small sizes: of K paths and of trees, then in float32 one kind of every law of siblings."""
    largest, seed = traits_of(subject.rule).largest_vocab_size or math.inf, context.seed
    for vocab, length in SMALL:
        if vocab <= largest:
            toy = panel(vocab, length, subject.num_paths, seed)["flat"]
            yield ToyDrafts("flat", "flat", PATHS, toy, subject.paths(toy))
    yield from later_sizes(subject.on_trees, seed)
    if "float32" in context.shapes.dtypes:
        toy = panel(3, DEPTH, subject.num_paths, seed)["good-draft"]
        for kind, drafting in subject.one_of_each(toy).items():
            yield ToyDrafts("good-draft", "good-draft", kind, toy, drafting, "float32")
