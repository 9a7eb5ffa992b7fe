"""The check `shapes`: the law of one call at other sizes, number types, layouts and kinds of rows.

At every shape of a covering design (`spec_oracle.audit.shapes`) the law after each likely draft is found,
exactly, and added up. What the shapes came to is the `scope` of the verdict.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Evidence, Status, failed, passed
from spec_oracle.audit.sampler.after_draft import law_after
from spec_oracle.audit.shapes.axes import AXES, Shape, design
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.drawn import MOST_SHAPES, drawn_at
from spec_oracle.audit.shapes.judging import Laws, judged
from spec_oracle.audit.shapes.mates import among_mates
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.enumeration import TooManyOutcomesError
from spec_oracle.exact.interception import CannotFollowError, TooManyBranchesError, UnrepeatableError
from verifiers import Drafts

SMALL: Final = ((2, 5), (4, 2), (5, 2), (8, 2), (33, 1))
"""Sizes V, L at which all drafts are tried."""


ONE_SHAPE: Final = 0.1
"""Share of the time that one shape may take."""


SMALL_SHARE: Final = 0.15
"""Share of the time for small sizes."""


DRAWS: Final = 0.15
"""Share of the time for plain draws, if the law can be followed."""


REQUESTS: Final = 2_000
"""Draws at one shape, at least, as long as there are enough for one."""


MOST_REQUESTS: Final = 60_000


_UNFOLLOWED = (CannotFollowError, TooManyBranchesError, UnrepeatableError, TooManyOutcomesError)


# WAY @SHAPES.way(SamplerSubject, SamplerSubject, SamplerSubject, of_a_true_law=True)
def shapes(subject: Any, context: Context) -> CheckResult:
    """Follow the code at every shape, then compare with plain draws; only draw where that fails."""
    seconds = context.shape_seconds * (1 - DRAWS)
    end, covered = time.process_time() + seconds, Covered()

    def laws(shape: Shape, drafts: Sequence[Drafts]) -> Sequence[ConditionalLaw]:
        code = replace(subject.code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
        # The first shape says whether the code can be followed at all: it may take its time.
        limit = time.process_time() + max(6.0 if covered.shapes else 30.0, ONE_SHAPE * seconds)
        return [
            law_after(
                code,
                among_mates(one, shape, context.seed),
                shape.request,
                max_seconds=max(limit - time.process_time(), 0.0),
            )
            for one in drafts
        ]

    axes = _forms(subject, context, laws, covered)
    if axes and not covered.lossy:
        _try_all(subject, context, design(**axes), laws, covered, end - SMALL_SHARE * seconds)
    if covered.lossy:
        return _result(context, covered, None)
    wrong = _small(subject, context, covered, end) if axes else None
    if wrong is not None:
        return wrong
    trees = [(one.shape, tree_of(one.shape, one.seed, subject.drafting)) for one in covered.shapes]
    if not trees:
        shapes = design(
            dtype=("float64",), num_paths=(subject.num_paths,), vocab_size=AXES["vocab_size"][:20]
        )
        trees = [(shape, tree_of(shape, context.seed, subject.drafting)) for shape in shapes]
    share = DRAWS if covered.shapes else 1.0
    requests = min(context.pace(subject) * context.shape_seconds * share, MOST_REQUESTS)
    if not covered.shapes and requests < REQUESTS:
        detail = f"takes {REQUESTS} requests, at {context.pace(subject):.0f} a second; raise --budget"
        return CheckResult("", Status.NOT_RUN, detail)
    trees.sort(key=lambda pair: pair[0].numbers // pair[0].batch)
    few = trees[: int(min(max(requests // REQUESTS, 1), MOST_SHAPES))]
    few += covered.not_followed[:: len(covered.not_followed) // MOST_SHAPES + 1]
    drawn = drawn_at(subject.code, few, alpha=alpha, seed=context.seed, requests=requests)
    if drawn.status is Status.PASSED:
        covered.drawn = [shape for shape, _ in few]
    return _result(context, covered, drawn)


def _forms(subject: Any, context: Context, laws: Laws, covered: Covered) -> dict[str, tuple[Any, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be followed."""
    known = getattr(context.findings, "evidence", Evidence.EXACT)
    if not getattr(subject, "follow", True) or known is Evidence.STATISTICAL:
        return {}
    types = tuple(dtype for dtype in AXES["dtype"] if subject.code.array == "torch" or dtype != "bfloat16")
    forms = {"dtype": types, "ids": AXES["ids"], "layout": AXES["layout"], "num_paths": (subject.num_paths,)}
    if subject.num_paths > 1:
        forms["num_paths"] = (subject.num_paths, *(k for k in AXES["num_paths"] if k != subject.num_paths))
    taken: dict[str, tuple[Any, ...]] = {}
    trials: dict[Shape, Covered] = {}
    for name, values in forms.items():
        taken[name] = ()
        for value in values:
            shape = replace(Shape(5, 3, subject.num_paths), **{name: value})
            if shape not in trials:
                trials[shape] = _trial(subject, context, shape, laws)
                covered.shapes += trials[shape].shapes
                covered.refused += [shape for shape, _ in trials[shape].not_followed]
            trial = trials[shape]
            if trial.shapes:
                taken[name] += (value,)
            elif value == "float64":
                return {}
            else:
                covered.left_out.update(f"{name} {value}: {reason}" for reason in trial.left_out)
    return taken


def _trial(subject: Any, context: Context, shape: Shape, laws: Laws) -> Covered:
    """Judge one shape; code that is made for several paths may refuse one."""
    trial = Covered()
    try:
        _try_all(subject, context, [shape], laws, trial)
    except ContractError as error:
        if shape.num_paths == subject.num_paths or shape.num_paths != 1:
            raise
        trial.left_out[_reason(error)] += 1
    return trial


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
