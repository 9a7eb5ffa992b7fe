"""What came of the shapes that were tried: the output distribution after every likely draft, added up."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Cover, How, failed, inconclusive, passed
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import Account, DraftTree
from spec_oracle.exact.errors import NotTracedError
from verifiers import Drafts

Laws: TypeAlias = Callable[[Shape, Sequence[Drafts]], Sequence[ConditionalLaw]]
"""Finds the law of the emission of one request after each of the drafts, at a shape."""

ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""

SMALL: Final = ((2, 5), (4, 2), (5, 2), (8, 2), (33, 1))
"""Sizes V, L at which all drafts are tried."""


class UnlikeError(NotTracedError):
    """Ordinary calls take branches that no traced one takes: what was traced says nothing of these."""


_NOT_TRACED = (NotTracedError, SubjectRaisedError)


@dataclass(frozen=True)
class Judged:
    """The total variation at a shape, beyond what rounding does to single tokens, and what is left open.

    ``allowed`` is what rounding explains; ``unseen`` the probability of drafts that were not tried;
    ``assumed`` that of tokens that others represent; ``drafts`` were tried; the ``seed`` is the tree's.
    """

    shape: Shape
    total_variation: float
    allowed: float
    unseen: float
    assumed: float
    drafts: int
    seed: int = 0

    @property
    def is_lossy(self) -> bool:
        """Whether neither rounding nor what was not seen explains the distance."""
        return self.total_variation > self.allowed + self.unseen

    def __str__(self) -> str:
        return f"total variation {self.total_variation:.3g} at {self.shape}"


@dataclass
class Covered:
    """What was tried: the shapes that were judged, and what was not, by reason.

    Right after all drafts are ``small`` shapes, wrong ``small_wrong``; ``sampled`` were sampled; ``refused``
    have a form that the code does not take; at those ``not_traced`` that are ``unlike`` ordinary calls take
    branches that traced ones do not; ``other_types`` says what is wrong in types that do not count.
    """

    shapes: list[Judged] = field(default_factory=list)
    small: list[Shape] = field(default_factory=list)
    small_wrong: list[Shape] = field(default_factory=list)
    sampled: list[Shape] = field(default_factory=list)
    refused: list[Shape] = field(default_factory=list)
    not_traced: list[tuple[Shape, DraftTree]] = field(default_factory=list)
    unlike: list[tuple[Shape, DraftTree]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    other_types: dict[str, str] = field(default_factory=dict)

    @property
    def lossy(self) -> Judged | None:
        """The shape with the largest distance, if that is a defect."""
        wrong = [shape for shape in self.shapes if shape.is_lossy]
        return max(wrong, key=lambda shape: shape.total_variation, default=None)

    def try_shapes(
        self, subject: Any, context: Context, shapes: Sequence[Shape], laws: Laws, end: float = math.inf
    ) -> None:
        """Judge shapes until one is a defect, or time is over.

        Where rows of a type that does not count are sampled wrongly, the shape is tried again with rows of
        the last type that does.
        """
        for seed, shape in enumerate(shapes[: context.most_shapes], start=context.seed):
            for dtype in (shape.dtype, context.dtypes[-1]):
                if time.process_time() > end or self.lossy:
                    return
                one = replace(shape, dtype=dtype)
                tree = tree_of(one, seed, subject.drafting)
                try:
                    found = judge(one, tree, laws, explained=subject.facts.tolerance)
                except _NOT_TRACED as error:
                    if time.process_time() > end:
                        return
                    self.leave_out(error)
                    self.not_traced.append((one, tree))
                    if isinstance(error, UnlikeError):
                        self.unlike.append((one, tree))
                    break
                if dtype in context.dtypes or not found.is_lossy:
                    self.shapes.append(replace(found, seed=seed))
                    break
                self.other_types.setdefault(dtype, f"not for {dtype} rows: {found}")

    def try_small_sizes(self, subject: Any, context: Context, end: float) -> CheckResult | None:
        """Find the law of all emissions at small sizes; return a failure, None where there is none."""
        law_of = context.findings.law_of
        for vocab, length in SMALL:
            if law_of is None or time.process_time() > end:
                break
            instance = panel(vocab, length, subject.num_paths, context.seed)["flat"]
            try:
                distance = float(law_of(instance).total_variation)
            except _NOT_TRACED as error:
                self.leave_out(error)
                continue
            shape = Shape(vocab, length, subject.num_paths)
            if distance > subject.facts.tolerance:
                self.small_wrong.append(shape)
                return self.failure(f"total variation {distance:.3g} at {shape}", distance)
            self.small.append(shape)
        return None

    def leave_out(self, error: Exception, where: str = "") -> None:
        """Count why a shape was not judged."""
        reason = str(error).partition("\n")[0].partition(" (at ")[0][:100]
        self.left_out[f"{where}{reason}"] += 1

    def failure(self, detail: str, total_variation: float) -> CheckResult:
        """Return the result for a defect at one shape."""
        return failed(detail, total_variation=total_variation, how=How.PROVEN, coverage=self.coverage)

    def result(self, sampled: CheckResult | None = None) -> CheckResult:
        """Return the result: what was found exactly, and what samples at shapes come to, where some were."""
        worst, scope = self.lossy, self.scope if self.shapes else ()
        if worst is not None:
            return self.failure(str(worst), worst.total_variation)
        exact = f"output distribution exact at {len(self.shapes)} input shapes" if self.shapes else ""
        notes = tuple(self.other_types.values())
        how = How.REPRESENTED if any(one.assumed for one in self.shapes) else How.PROVEN
        if sampled is not None:
            return replace(
                sampled,
                detail="; ".join(filter(None, (exact, sampled.detail))),
                how=how if self.shapes and not self.unlike else sampled.how,
                scope=(*scope, *sampled.scope),
                notes=notes,
                coverage=self.coverage,
            )
        if not self.shapes:
            return inconclusive(f"no shape was tried: {', '.join(self.left_out) or 'raise --budget'}")
        return passed(exact, how=how, scope=scope, notes=notes, coverage=self.coverage)

    @property
    def scope(self) -> tuple[str, ...]:
        """Lines that say at which shapes the output distribution was found."""
        axes = {name: {getattr(one.shape, name) for one in self.shapes} for name in AXES}
        vocab, length, paths, batch = (
            _range(axes[name]) for name in ("vocab_size", "draft_length", "num_paths", "batch")
        )
        forms = "; ".join(", ".join(sorted(axes[name])) for name in ("dtype", "ids", "layout"))
        assumed = max(one.assumed for one in self.shapes)
        law = (
            f"output distribution exact at {len(self.shapes)} input shapes, after "
            f"{sum(one.drafts for one in self.shapes)} drafts: V {vocab}, L {length}, K {paths}; "
            f"batch size {batch}; {forms}; {', '.join(sorted(axes['kind']))} probabilities"
        )
        few = (
            "assumption: where the code reads a sampled id, only the drafted, first, last and likeliest ids "
            f"were run (up to {assumed:.0%} of the probability at one shape is represented, not run)"
        )
        left_out = (
            f"not traced at {count} input shapes: {reason}" for reason, count in self.left_out.items()
        )
        sizes = "; ".join(f"V {s.vocab_size}, L {s.draft_length}, K {s.num_paths}" for s in self.small)
        small = f"output distribution exact after all drafts: {sizes}"
        return (law, *([small] if self.small else []), *([few] if assumed else []), *left_out)

    @property
    def coverage(self) -> dict[str, dict[str, Cover]]:
        """What is known at each value of each axis; the worst, if that is a defect, else the best."""
        right = [one for one in self.shapes if not one.is_lossy]
        known = {
            Cover.NOT_TRACED: [*self.refused, *(shape for shape, _ in self.not_traced)],
            Cover.SAMPLED: self.sampled,
            Cover.REPRESENTED: [one.shape for one in right if one.assumed],
            Cover.PROVEN: [*(one.shape for one in right if not one.assumed), *self.small],
            Cover.WRONG: [*(one.shape for one in self.shapes if one.is_lossy), *self.small_wrong],
        }
        coverage = {}
        for axis, values in AXES.items():
            found = dict.fromkeys(values, Cover.UNTRIED)
            for cover, shapes in known.items():
                found.update({getattr(shape, axis): cover for shape in shapes})
            listed = found if isinstance(values[0], str) else sorted(found)
            coverage[axis] = {str(value): found[value] for value in listed}
        return coverage


def judge(shape: Shape, tree: DraftTree, laws: Laws, *, explained: float) -> Judged:
    """Judge a shape; code may compute in `ENGINES`, or in the type of its rows where that is coarser.

    ``explained`` is the total variation that its arithmetic explains anywhere. Errors are those of ``laws``.
    """
    listed = list(tree.likely)
    account = Account(tree)
    found = laws(shape, [tree.drafts(paths) for paths in listed])
    for paths, law in zip(listed, found, strict=True):
        account.add(tree.likely[paths], law)
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    return Judged(
        shape,
        account.total_variation(2 * unit_roundoff(coarsest)),
        max(explained, tolerance(coarsest, tree.draft_length, tree.vocab_size)),
        tree.unseen,
        account.assumed,
        len(listed),
    )


def _range(values: set[Any]) -> str:
    return f"{min(values)} to {max(values)} ({len(values)} sizes)" if len(values) > 1 else str(*values)
