"""Whether the output distribution is right at shapes: that after every likely draft, added up."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import (
    CheckResult,
    Cover,
    How,
    NoEvidenceError,
    Remarks,
    Status,
    failed,
    inconclusive,
    passed,
)
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, SPARSE, AxisValue, Shape
from spec_oracle.audit.shapes.design import Design, Extent, budget_for, cost, scope_of
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.audit.shapes.trees import tree_of, wanted_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import Account, DraftTree
from spec_oracle.exact.errors import NotTracedError, TooManyBranchesError
from verifiers import Paths

SHAPES_PAIR_SHARE: Final = 0.03
SHAPES_SECONDS: Final = 1.0  # Seconds that a shape may take in any case.


ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""


Laws: TypeAlias = Callable[[Shape, Sequence[Paths], float], Sequence[ConditionalLaw]]
"""Finds the laws of the emission of one request, each after one of the drafts, up to a processor time."""


@dataclass(frozen=True)
class JudgedShape:
    """The total variation at a shape, beyond what rounding does to single tokens, and what is left open.

    ``allowed`` is what rounding explains; ``unseen`` the probability of drafts that were not tried;
    ``assumed`` that of tokens that others represent; ``drafts`` were tried; the ``seed`` is the tree's;
    ``gap`` names the token that is farthest off, where the shape is lossy, and ``account`` has all of what
    was found; ``is_decided``: whether a random decision was seen.
    """

    shape: Shape
    total_variation: float
    allowed: float
    unseen: float
    assumed: float
    drafts: int
    seed: int = 0
    gap: str = ""
    account: Account | None = field(default=None, compare=False, repr=False)
    is_decided: bool = True

    @property
    def is_lossy(self) -> bool:
        """Whether neither rounding nor what was not seen explains the distance."""
        return self.total_variation > self.allowed + self.unseen

    def __str__(self) -> str:
        return f"total variation {self.total_variation:.3g} at {self.shape}{self.gap}"


Confirm: TypeAlias = Callable[[JudgedShape, DraftTree], None]
"""Raises `NoEvidenceError` where a shape that was judged lossy may be right."""


def judge(
    shape: Shape, tree: DraftTree, laws: Laws, *, explained: float, end: float = math.inf
) -> JudgedShape:
    """Judge a shape; code may compute in `ENGINES`, or in the type of its rows where that is coarser.

    ``explained`` is the total variation that its arithmetic explains anywhere. Errors are those of ``laws``.
    """
    listed = list(tree.likely)
    account = Account(wanted_of(shape, tree))
    found = laws(shape, [tree.drafts(paths) for paths in listed], end)
    for paths, law in zip(listed, found, strict=True):
        account.add(paths, law)
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    judged = JudgedShape(
        shape,
        account.total_variation(2 * unit_roundoff(coarsest)),
        max(explained, tolerance(coarsest, tree.draft_length, tree.vocab_size)),
        tree.unseen,
        account.assumed,
        len(listed),
    )
    if not judged.is_lossy:
        return judged
    return replace(
        judged, gap=_gap(account), account=account, is_decided=not all(law.is_certain for law in found)
    )


def _gap(account: Account) -> str:
    beginning, token, expected, found = account.largest_gap()
    after = f"after tokens {','.join(map(str, beginning))}" if beginning else "at position 0"
    return f": {after}, token {token} is emitted with probability {found:.4g}, {expected:.4g} expected"


def one_shape(
    subject: CalledAsSampler, laws: Laws, shape: Shape, seed: int, confirm: Confirm = lambda *_: None
) -> CheckResult:
    """Judge one shape, with its tree of that seed."""
    tree = tree_of(shape, seed, subject.drafting)
    found = judge(shape, tree, laws, explained=subject.facts.explained(shape.draft_length + 1))
    if found.is_lossy:
        confirm(found, tree)
        return failed(str(found), total_variation=found.total_variation, how=How.PROVEN)
    return passed(f"total variation {found.total_variation:.3g} at {shape}", how=How.PROVEN)


@dataclass
class Covered:
    """What was tried: the shapes that were judged, and what was not, by reason.

    ``sampled`` shapes were sampled; ``refused`` are values by axis at which the code raised, with the reason;
    ``raised`` are other shapes at which it did;
    ``seconds`` were taken by so many ``units`` of `cost`; ``too_many`` is the least vocabulary all tokens of
    which are too many outcomes.
    Shapes that are judged lossy are handed to ``confirm``.
    """

    shapes: list[JudgedShape] = field(default_factory=list)
    sampled: list[Shape] = field(default_factory=list)
    refused: dict[tuple[str, AxisValue], str] = field(default_factory=dict)
    raised: list[tuple[Shape, str]] = field(default_factory=list)
    not_traced: list[tuple[Shape, DraftTree]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    units: float = 0.0
    too_many: float = math.inf
    confirm: Confirm = lambda *_: None

    @property
    def lossy(self) -> JudgedShape | None:
        """The shape with the largest distance, if that is a defect."""
        wrong = [shape for shape in self.shapes if shape.is_lossy]
        return max(wrong, key=lambda shape: shape.total_variation, default=None)

    @property
    def wrong(self) -> dict[str, object]:
        """The shape that is wrong, and the seed of its tree, by name; nothing where none is."""
        return {} if self.lossy is None else {"shape": self.lossy.shape, "seed": self.lossy.seed}

    def try_design(
        self,
        subject: CalledAsSampler,
        context: Context,
        design: Design,
        laws: Laws,
        seconds: float = math.inf,
    ) -> None:
        """Judge the shapes of a design in their order, until one is a defect, or time is over.

        Those that have every value of every axis may take a large part of the budget, since a value that was
        not tried leaves the audit open; the others what is left of ``seconds`` of processor time.
        """
        shapes, count = design.shapes[: context.shapes.most], design.of_values
        started, seed = time.process_time(), context.seed
        until = started + effort.SHAPES_VALUES_SHARE * context.budget
        self.try_shapes(subject, context, shapes[:count], laws, until)
        others = shapes[count:]
        self.try_shapes(subject, context, others, laws, started + seconds, seed + count, SHAPES_PAIR_SHARE)

    def try_shapes(  # noqa: PLR0917
        self,
        subject: CalledAsSampler,
        context: Context,
        shapes: Sequence[Shape],
        laws: Laws,
        end: float = math.inf,
        seed: int | None = None,
        share: float = effort.SHAPES_ONE_SHARE,
    ) -> None:
        """Judge shapes until one is a defect, or time is over; each may take a part of what is left.

        Raises `ContractError` for what nobody may return, and `NoEvidenceError` where what was traced is
        contradicted.
        """
        for number, planned in enumerate(shapes, start=context.seed if seed is None else seed):
            started = time.process_time()
            if started > end or self.lossy:
                return
            shape = self._within_reach(planned)
            tree, left = tree_of(shape, number, subject.drafting), end - started
            limit = started + max(min(SHAPES_SECONDS, left), share * left)
            explained = subject.facts.explained(shape.draft_length + 1)
            try:
                found = judge(shape, tree, laws, explained=explained, end=limit)
                if found.is_lossy:
                    self.confirm(found, tree)
                self.shapes.append(replace(found, seed=number))
            except NoEvidenceError:
                self.not_traced.append((shape, tree))
                raise
            except ContractError as error:
                error.args = (f"{error}, at {shape}",)
                raise
            except (NotTracedError, SubjectRaisedError) as error:
                self.leave_out(error, shape, tree)
            finally:
                self.seconds += time.process_time() - started
                self.units += cost(shape)

    def _within_reach(self, shape: Shape) -> Shape:
        """Return the shape, with sparse rows where others have too many outcomes for this code."""
        if shape.vocab_size >= self.too_many and shape.kind not in SPARSE:
            return replace(shape, kind=SPARSE[0])
        return shape

    def leave_out(self, error: Exception, shape: Shape, tree: DraftTree) -> None:
        """Note why a shape was not judged."""
        self.left_out[_short(error)] += 1
        if isinstance(error, SubjectRaisedError):
            self.raised.append((shape, _short(error)))
        else:
            self.not_traced.append((shape, tree))
            is_too_many = isinstance(error, TooManyBranchesError)
            if is_too_many and shape.kind not in SPARSE and shape.positions < shape.vocab_size:
                self.too_many = min(self.too_many, shape.vocab_size)

    def result(self, extent: Extent, context: Context, sampled: CheckResult | None = None) -> CheckResult:
        """Return the result: what was found exactly, and what samples at shapes come to, where some were.

        It is inconclusive where a value of an axis was not tried, unless ``context`` limits the shapes.
        """
        worst = self.lossy
        if worst is not None:
            size = worst.total_variation
            return failed(str(worst), total_variation=size, how=How.PROVEN, coverage=self.coverage)
        tried = [one.shape for one in self.shapes]
        known = [*tried, *self.sampled]
        exact = f"output distribution exact at {extent.how_much(tried)}{extent.rest(known)}" if tried else ""
        how = How.REPRESENTED if any(one.assumed for one in self.shapes) else How.PROVEN
        remarks = Remarks(self.scope(extent), coverage=self.coverage)
        if sampled is not None:
            detail = "; ".join(filter(None, (exact, sampled.detail)))
            remarks = replace(remarks, scope=(*remarks.scope, *sampled.remarks.scope))
            found = replace(sampled, detail=detail, how=how if self.shapes else sampled.how, remarks=remarks)
        elif not self.shapes:
            reasons = ", ".join(self.left_out) or "raise --budget"
            return inconclusive(f"no shape was tried: {reasons}", scope=extent.scope)
        else:
            found = replace(passed(exact, how=how), remarks=remarks)
        why, do = self._open(extent, context) if tried or self.refused else ("", "")
        if found.status is Status.PASSED and why:
            detail, remarks = f"{why}; {found.detail}", replace(found.remarks, do=do)
            return replace(found, status=Status.INCONCLUSIVE, detail=detail, remarks=remarks)
        return found

    def _open(self, extent: Extent, context: Context) -> tuple[str, str]:
        """Say what leaves the check open, values not tried or shapes at which the code raised; what to do."""
        if self.refused:
            (axis, value), reason = next(iter(self.refused.items()))
            do = extent.declaration(axis, value)
            how = f"if it need not take that, declare what it takes: {do}" if do else "it must take these"
            return f"{extent.named(axis, value)}: {reason}; {how}", do
        if self.raised:
            shape, reason = self.raised[0]
            return f"the code raised at {len(self.raised)} input shapes, first at {shape}: {reason}", ""
        tried = [*(one.shape for one in self.shapes), *self.sampled]
        missing = extent.missing(tried)
        if not missing or context.shapes.most is not None:
            return "", ""
        budget = budget_for(extent.design, tried, self.seconds / self.units, context.budget)
        listed = "; ".join(extent.named(axis, *values) for axis, values in missing.items())
        do = f"--budget {budget}"
        return f"not tried in this time: {listed} ({do} should do)", do

    def scope(self, extent: Extent) -> tuple[str, ...]:
        """Return lines that say at which shapes the output distribution was found."""
        if not self.shapes:
            return extent.scope
        drafts, assumed = sum(one.drafts for one in self.shapes), max(one.assumed for one in self.shapes)
        shapes = [one.shape for one in self.shapes]
        left_out = (
            f"not traced at {count} input shapes: {reason}" for reason, count in self.left_out.items()
        )
        return (
            *scope_of(shapes, drafts, assumed),
            extent.line([*shapes, *self.sampled]),
            *extent.scope,
            *left_out,
        )

    @property
    def coverage(self) -> dict[str, dict[str, Cover]]:
        """What is known at each value of each axis; the worst, if that is a defect, else the best."""
        right = [one for one in self.shapes if not one.is_lossy]
        known = {
            Cover.NOT_TRACED: [shape for shape, _ in (*self.raised, *self.not_traced)],
            Cover.SAMPLED: self.sampled,
            Cover.REPRESENTED: [one.shape for one in right if one.assumed],
            Cover.PROVEN: [one.shape for one in right if not one.assumed],
            Cover.WRONG: [one.shape for one in self.shapes if one.is_lossy],
        }
        coverage = {}
        given = {name for shapes in known.values() for shape in shapes for name in shape.options}
        for axis, values in {**AXES, **{name: OPTIONS[name] for name in OPTIONS if name in given}}.items():
            found = dict.fromkeys(values, Cover.UNTRIED)
            for cover, shapes in known.items():
                found.update({getattr(shape, axis): cover for shape in shapes})
            listed = found if isinstance(values[0], str) else sorted(found)
            found.update({value: Cover.NOT_TRACED for name, value in self.refused if name == axis})
            coverage[axis] = {str(value): found[value] for value in listed}
        return coverage


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(" (at ")[0][:100]
