"""The check `shapes` of rules: the output distribution of one call at other sizes and kinds of drafts.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft of
K paths is found by enumeration, and added up. At small sizes all drafts are tried: K paths, trees of one to
three tokens, trees whose paths end early, other fan-outs; and one kind of each in float32.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.instances import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed, remarked
from spec_oracle.audit.rule.draftings import DEPTH, PATHS, later_sizes
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.covered import SHAPES_MANY_SECONDS, SHAPES_PAIR_SHARE, SMALL, Covered
from spec_oracle.audit.shapes.design import design
from spec_oracle.audit.shapes.extent import Extent
from spec_oracle.audit.shapes.judged import Laws, one_shape
from spec_oracle.contracts import raising
from spec_oracle.exact import DecisionError, VerdictError, emission_law
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.toy import Instance
from verifiers import Drafts, Paths, traits_of
from verifiers.errors import InvalidInputError

_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (1,),
    "place": ("first",),
    "dtype": ("float64",),
    "ids": ("int64",),
    "layout": ("contiguous",),
}
"""Axes of a verifier that is enumerated: the rows of a batch are outcomes of decisions there."""

_OF_VALUES: Final = 1 / 6
"""Share of the budget for the shapes of the design that have every value of every axis."""

_TURNS: Final = 8
"""Times that the smallest shapes are tried with other rows: those at open positions have few possible tokens."""

_SECONDS: Final = 2.0
"""Processor time that one of the small sizes may take."""


class Size(NamedTuple):
    """A toy instance, and how its drafts are drawn, by the name of their kind; the type of the rows."""

    kind: str
    instance: Instance
    dtype: str = "float64"


def shapes(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape of the design, and then after all drafts of small sizes."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    covered, extent = Covered(), _extent(subject, context)
    try:
        _try_design(subject, context, covered, extent)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    if covered.wrong:
        found = covered.result(extent, context)
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, covered.wrong)
    right, too_slow = list[Size](), list[Size]()
    for size in _sizes(subject, context):
        try:
            one = one_size(subject, context, context.rate, **size._asdict())
        except NotTracedError:
            too_slow.append(size)
            continue
        if one.status is not Status.PASSED:
            return one
        right.append(size)
        if size.kind == PATHS and size.dtype == "float64":
            toy = size.instance
            covered.small.append(Shape(toy.vocab_size, toy.draft_length, toy.num_paths))
    found = covered.result(extent, context)
    if found.status is not Status.PASSED:
        return found
    lines = [f"other sizes: {'; '.join(map(_said, right))}"]
    lines += [f"not run in this time: {'; '.join(map(_said, too_slow))}"] if too_slow else []
    detail = f"{found.detail}; output distribution exact at {len(right)} other sizes and kinds of drafts"
    return remarked(replace(found, detail=detail), scope=(*found.remarks.scope, *lines))


def _extent(subject: RuleSubject, context: Context) -> Extent:
    """Return the design of the shapes that the rule takes, and what of them is declared."""
    traits = traits_of(subject.rule)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.shapes.only, **_ALONE}
    declared = {axis: values for axis, values in context.shapes.only.items() if axis not in _ALONE}
    return Extent(design(**axes), declared)


def _try_design(subject: RuleSubject, context: Context, covered: Covered, extent: Extent) -> None:
    """Enumerate the rule at shapes that have every value, then at those that have all pairs of values.

    For a rule with too many outcomes at some of the first, the values missing are tried at the smallest
    shapes that have them, whose rows have few possible tokens, in place of the pairs.
    """
    started, laws, most = time.process_time(), _laws(subject, context), context.shapes.most
    shapes, seconds = extent.design.shapes[:most], context.shape_seconds
    first, early = extent.design.of_values, extent.design.early
    covered.try_shapes(subject, context, shapes[:first], laws, started + _OF_VALUES * context.budget)
    missing = extent.missing([one.shape for one in covered.shapes]) if most is None else {}
    if not missing:
        pairs, seed = shapes[first if seconds >= SHAPES_MANY_SECONDS else early :], context.seed + first
        covered.try_shapes(subject, context, pairs, laws, started + seconds, seed, SHAPES_PAIR_SHARE)
    end = time.process_time() + _OF_VALUES * context.budget
    for turn in range(_TURNS):
        missing = missing and extent.missing([one.shape for one in covered.shapes])
        least, seed = Shape(2, 1, kind="zero"), context.seed + turn * len(shapes)
        smallest = [replace(least, **{axis: value}) for axis, values in missing.items() for value in values]
        covered.try_shapes(subject, context, smallest, laws, end, seed)


@part
def enumerated_shape(subject: Any, context: Context, rate: float, *, shape: Shape, seed: int) -> CheckResult:
    """Enumerate the verifier at one shape, and compare with the target."""
    del rate
    return one_shape(subject, _laws(subject, context), shape, seed)


def _laws(subject: RuleSubject, context: Context) -> Laws:
    """Return what enumerates the verifier at a shape."""

    def laws(shape: Shape, drafts: Sequence[Paths], until: float) -> Sequence[ConditionalLaw]:
        del shape
        names = ("tokens", "draft_probs", "target_probs")
        joined = Drafts.of_paths(*(np.concatenate([getattr(one, name) for one in drafts]) for name in names))
        try:
            with raising():
                return conditional_laws(subject.rule, joined, array=context.array, end=until)
        except InvalidInputError as error:
            raise NotTracedError(f"the rule does not take this size: {error}") from None

    return laws


def _sizes(subject: RuleSubject, context: Context) -> Iterator[Size]:
    """Yield small sizes: of K paths and of trees, then in float32 one kind of every law of siblings."""
    largest = traits_of(subject.rule).largest_vocab_size or math.inf
    for vocab, length in SMALL:
        if vocab <= largest:
            yield Size(PATHS, panel(vocab, length, subject.num_paths, context.seed)["flat"])
    for number, (kind, vocab, length, _) in enumerate(later_sizes(subject.on_trees)):
        toys = panel(vocab, length, 1, context.seed)
        yield Size(kind, toys[main_instances(toys)[number % 2]])
    if "float32" in context.shapes.dtypes:
        toy = panel(3, DEPTH, subject.num_paths, context.seed)["good-draft"]
        yield from (Size(kind, toy, "float32") for kind in subject.one_of_each(toy))


def _drafting(subject: RuleSubject, kind: str, instance: Instance) -> Drafting:
    known: Mapping[str, Drafting] = {one: drafting for one, *_, drafting in later_sizes(subject.on_trees)}
    return {**known, **subject.one_of_each(instance)}[kind]


@part
def one_size(
    subject: RuleSubject, context: Context, rate: float, *, kind: str, instance: Instance, dtype: str
) -> CheckResult:
    """Enumerate all outcomes after one kind of drafts of an instance, and compare with the target."""
    del rate
    where, end = _said(Size(kind, instance, dtype)), time.process_time() + _SECONDS
    rounding = FLOAT32_ROUNDING if dtype == "float32" else 0.0
    how: dict[str, Any] = {"array": subject.array, "dtype": dtype, "merged": False, "end": end}
    try:
        with raising():
            drafting = _drafting(subject, kind, instance)
            law = emission_law(subject.rule, instance, drafting=drafting, **how)
    except (DecisionError, VerdictError) as error:
        return failed(f"{where}: {error}", how=How.PROVEN)
    tv = float(law.total_variation)
    if tv > max(subject.facts.explained(instance.draft_length + 1), rounding):
        return failed(f"total variation {tv:.3g} at {where}", how=How.PROVEN, total_variation=tv)
    return passed(f"total variation {tv:.3g} at {where}", how=How.PROVEN, total_variation=tv)


def _said(size: Size) -> str:
    return f"V = {size.instance.vocab_size}, L = {size.instance.draft_length}, {size.dtype}, {size.kind}"
