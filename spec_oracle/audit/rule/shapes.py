"""The check `shapes` of rules: the output distribution of one call at other sizes and distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
found by enumeration, and added up. Rules for draft trees are run for vocabularies of 2 and 4 tokens, trees of
one and of three tokens, trees whose paths end early, other fan-outs, and in float32.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.instances import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed, remarked
from spec_oracle.audit.rule.draftings import DEPTH, later_sizes, one_of_each
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import Extent, design
from spec_oracle.audit.shapes.judged import Laws, one_shape
from spec_oracle.contracts import raising
from spec_oracle.exact import DecisionError, VerdictError, emission_law
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotTracedError
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


def shapes(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate a verifier at every shape."""
    if subject.never_called_alone:
        return not_asked(subject.never_called_alone)
    end, laws = time.process_time() + context.shape_seconds, _laws(subject, context)
    traits = traits_of(subject.rule)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    axes = {"vocab_size": sizes, "num_paths": paths, **context.shapes.only, **_ALONE}
    declared = {axis: values for axis, values in context.shapes.only.items() if axis not in _ALONE}
    covered, extent = Covered(), Extent(design(**axes), declared)
    try:
        covered.try_design(subject, context, extent.design, laws, end - time.process_time())
        found = covered.result(extent, context)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    if covered.wrong:
        return with_inputs(found, "enumerated_shape", subject, context, context.rate, covered.wrong)
    if found.status is not Status.PASSED or not subject.on_trees:
        return found
    on_trees = _on_trees(subject, context)
    if on_trees.status is Status.FAILED:
        return on_trees
    both = replace(found, detail=f"{found.detail}; {on_trees.detail}")
    return remarked(both, scope=(*found.remarks.scope, *on_trees.remarks.scope))


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


def _on_trees(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate a rule on trees: of each size in float64, and of each law of siblings in float32."""
    sizes = [(*size, "float64") for size in later_sizes(subject.on_trees)]
    if "float32" in context.shapes.dtypes:
        some = one_of_each(subject.on_trees, DEPTH).items()
        sizes += [(kind, 3, DEPTH, drafting, "float32") for kind, drafting in some]
    worst = 0.0
    for number, (kind, vocab, length, drafting, dtype) in enumerate(sizes):
        toys = panel(vocab, length, 1, context.seed)
        name = main_instances(toys)[number % 2]
        tolerance = max(subject.facts.explained(length + 1), FLOAT32_ROUNDING if dtype == "float32" else 0.0)
        where = f"V = {vocab}, L = {length}, {dtype}, {kind}, instance {name!r}"
        try:
            with raising():
                law = emission_law(
                    subject.rule,
                    toys[name],
                    drafting=drafting,
                    array=subject.array,
                    dtype=dtype,
                    merged=False,
                )
        except (DecisionError, VerdictError) as error:
            return failed(f"{where}: {error}", how=How.PROVEN)
        tv = float(law.total_variation)
        worst = max(worst, tv)
        if tv > tolerance:
            return failed(f"total variation {tv:.3g} at {where}", how=How.PROVEN, total_variation=tv)
    kinds = "; ".join(f"V = {vocab}, {dtype}, {kind}" for kind, vocab, _, _, dtype in sizes)
    detail = f"output distribution exact at {len(sizes)} other sizes and kinds of draft trees"
    return passed(detail, how=How.PROVEN, total_variation=worst, scope=(f"other sizes: {kinds}",))
