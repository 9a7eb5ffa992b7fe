"""The check `shapes`: the law of one call at other sizes, number types, layouts and kinds of rows.

At every shape of a covering design (`spec_oracle.audit.shapes`) the law after each likely draft is found,
exactly, and added up. What the shapes came to is the `scope` of the verdict.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Evidence, Status
from spec_oracle.audit.shapes.axes import AXES, MOST_NUMBERS, Shape, design
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.drawn import MOST_SHAPES, drawn_at
from spec_oracle.audit.shapes.judging import Laws, judged
from spec_oracle.audit.shapes.mates import among_mates
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import ContractError, SubjectRaisedError, raising
from spec_oracle.plain.law import law_after
from verifiers import Drafts, traits_of

SHAPES = Check(
    "shapes",
    "is it so at other V, L, K and B, number types, memory layouts, ranges of probability?",
    Fraction(10, 100),
    speaks_against_law=True,
)
SHAPES.does_not_apply("it is handed no rows", SystemSubject, EngineSubject, ServerSubject)

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

_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "batch": (1,),
    "place": ("first",),
    "dtype": ("float64",),
    "ids": ("int64",),
    "layout": ("contiguous",),
}
"""Axes of a verifier that is enumerated: the rows of a batch are outcomes of decisions there."""


@SHAPES.way(VerifierSubject, of_a_true_law=True)
def _of_verifier(subject: VerifierSubject, bench: Bench, alpha: float) -> CheckResult:
    """Enumerate a verifier at every shape."""
    del alpha  # nothing is drawn
    end = time.process_time() + bench.shape_seconds

    def laws(shape: Shape, drafts: Sequence[Drafts]) -> Sequence[ConditionalLaw]:
        del shape
        names = ("tokens", "draft_probs", "target_probs")
        together = (np.concatenate([getattr(one, name) for one in drafts]) for name in names)
        with raising():
            return conditional_laws(subject.verifier, Drafts(*together), array=bench.array, end=end)

    traits = traits_of(subject.verifier)
    paths = (1,) if traits.single_path else AXES["num_paths"]
    sizes = tuple(size for size in AXES["vocab_size"] if size <= (traits.largest_vocab_size or math.inf))
    covered = Covered()
    shapes = design(MOST_NUMBERS, **_ALONE, vocab_size=sizes, num_paths=paths)
    try:
        _try_all(subject, bench, shapes, laws, covered, end)
        return _small(subject, bench, covered, end) or _result(bench, covered, None)
    except (DecisionError, VerdictError) as error:
        return failed(str(error))


@SHAPES.way(FunctionSubject, UniformsSubject, KeyedSubject, of_a_true_law=True)
def _of_function(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Follow the code at every shape, then compare with plain draws; only draw where that fails."""
    seconds = bench.shape_seconds * (1 - DRAWS)
    end, covered = time.process_time() + seconds, Covered()

    def laws(shape: Shape, drafts: Sequence[Drafts]) -> Sequence[ConditionalLaw]:
        code = replace(subject.code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
        # The first shape says whether the code can be followed at all: it may take its time.
        limit = time.process_time() + max(6.0 if covered.shapes else 30.0, ONE_SHAPE * seconds)
        return [
            law_after(
                code,
                among_mates(one, shape, bench.seed),
                shape.request,
                max_seconds=max(limit - time.process_time(), 0.0),
            )
            for one in drafts
        ]

    axes = _forms(subject, bench, laws, covered)
    if axes and not covered.lossy:
        _try_all(subject, bench, design(**axes), laws, covered, end - SMALL_SHARE * seconds)
    if covered.lossy:
        return _result(bench, covered, None)
    wrong = _small(subject, bench, covered, end) if axes else None
    if wrong is not None:
        return wrong
    trees = [(one.shape, tree_of(one.shape, one.seed, subject.drafting)) for one in covered.shapes]
    if not trees:
        shapes = design(
            dtype=("float64",), num_paths=(subject.num_paths,), vocab_size=AXES["vocab_size"][:20]
        )
        trees = [(shape, tree_of(shape, bench.seed, subject.drafting)) for shape in shapes]
    share = DRAWS if covered.shapes else 1.0
    requests = min(bench.pace(subject) * bench.shape_seconds * share, MOST_REQUESTS)
    if not covered.shapes and requests < REQUESTS:
        detail = f"takes {REQUESTS} requests, at {bench.pace(subject):.0f} a second; raise --budget"
        return CheckResult("", Status.NOT_RUN, detail)
    trees.sort(key=lambda pair: pair[0].numbers // pair[0].batch)
    few = trees[: int(min(max(requests // REQUESTS, 1), MOST_SHAPES))]
    few += covered.not_followed[:: len(covered.not_followed) // MOST_SHAPES + 1]
    drawn = drawn_at(subject.code, few, alpha=alpha, seed=bench.seed, requests=requests)
    if drawn.status is Status.PASSED:
        covered.drawn = [shape for shape, _ in few]
    return _result(bench, covered, drawn)


def _forms(subject: Any, bench: Bench, laws: Laws, covered: Covered) -> dict[str, tuple[Any, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be followed."""
    known = getattr(bench.findings, "evidence", Evidence.EXACT)
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
                trials[shape] = _trial(subject, bench, shape, laws)
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


def _trial(subject: Any, bench: Bench, shape: Shape, laws: Laws) -> Covered:
    """Judge one shape; code that is made for several paths may refuse one."""
    trial = Covered()
    try:
        _try_all(subject, bench, [shape], laws, trial)
    except ContractError as error:
        if shape.num_paths == subject.num_paths or shape.num_paths != 1:
            raise
        trial.left_out[_reason(error)] += 1
    return trial


def _small(subject: Any, bench: Bench, covered: Covered, end: float) -> CheckResult | None:
    """Find the law of all emissions at small sizes; return a failure, None where there is none."""
    law_of = None if bench.findings is None else bench.findings.law_of
    for vocab, length in SMALL:
        if law_of is None or time.process_time() > end:
            break
        instance = panel(vocab, length, subject.num_paths, bench.seed)["flat"]
        try:
            distance = float(law_of(instance).total_variation)
        except (NotTracedError, SubjectRaisedError) as error:
            covered.left_out[_reason(error)] += 1
            continue
        shape = Shape(vocab, length, subject.num_paths)
        if distance > subject.facts.tolerance:
            covered.small_wrong.append(shape)
            _keep(bench, covered)
            return replace(failed(f"total variation {distance:.3g} at {shape}"), total_variation=distance)
        covered.small.append(shape)
    return None


def _keep(bench: Bench, covered: Covered, scope: tuple[str, ...] = ()) -> None:
    """Leave at the bench what was covered."""
    if bench.findings is not None:
        bench.findings = replace(
            bench.findings, scope=(*bench.findings.scope, *scope), coverage=covered.coverage
        )


def _try_all(  # noqa: PLR0917
    subject: Any, bench: Bench, shapes: Sequence[Shape], laws: Laws, covered: Covered, end: float = math.inf
) -> None:
    """Judge shapes until one is a defect, or time is over."""
    for seed, shape in enumerate(shapes[: bench.most_shapes], start=bench.seed):
        if time.process_time() > end or covered.lossy:
            break
        tree = tree_of(shape, seed, subject.drafting)
        try:
            found = judged(shape, tree, laws, explained=subject.facts.tolerance)
        except (NotTracedError, SubjectRaisedError) as error:
            if time.process_time() > end:
                break
            covered.left_out[_reason(error)] += 1
            covered.not_followed.append((shape, tree))
        else:
            covered.shapes.append(replace(found, seed=seed))


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(" (at ")[0][:100]


def _result(bench: Bench, covered: Covered, drawn: CheckResult | None) -> CheckResult:
    """Put together what was found, and leave the scope at the bench."""
    worst = covered.lossy
    if worst is not None:
        _keep(bench, covered)
        return replace(failed(str(worst)), total_variation=worst.total_variation)
    scope = covered.scope if covered.shapes else ()
    if drawn is not None:
        scope = (*scope, f"{drawn.detail}, {drawn.draws} plain draws")
    _keep(bench, covered, scope)
    if drawn is None and not covered.shapes:
        return CheckResult("", Status.INCONCLUSIVE, f"no shape: {', '.join(covered.left_out) or 'no time'}")
    proven = f"law proven at {len(covered.shapes)} shapes" if covered.shapes else ""
    if drawn is None:
        return passed(proven)
    return replace(drawn, detail="; ".join(filter(None, (proven, drawn.detail))))
