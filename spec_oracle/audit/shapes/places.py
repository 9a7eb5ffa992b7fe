"""Experiments of one call at a place: a shape, and the rows that one seed gives it.

Few drafts of a place are likely (`spec_oracle.exact.draft_tree`). What is emitted after each of them, added
up, proves or disproves losslessness there, whatever the vocabulary: a criterion, since the outcomes are too
many to list. Samples are counted in cells.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context as CheckContext
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.experiment import Experiment, NoDecisionError, TracedExperiment, TracedOutcome
from spec_oracle.audit.results import CheckResult, How, NoEvidenceError, failed, passed
from spec_oracle.audit.shapes.axes import SPARSE, AxisValue, Design, Shape, cheapest, cost
from spec_oracle.audit.shapes.cells import TreeCells
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.audit.shapes.trees import RowPair, one_hot, tree_of
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.draft_tree import Account, ConditionalLaw, DraftTree
from spec_oracle.exact.errors import NotTracedError, TooManyBranchesError
from spec_oracle.toy import Context
from verifiers import Paths, Siblings

SHAPES_PAIR_SHARE: Final = 0.03  # Share of the time left for one of the shapes that have pairs of values.
# Share of the budget for all shapes that have pairs of values: the last ones have few new pairs.
SHAPES_PAIRS_SHARE: Final = 0.25
# Share of the budget for the cheapest shapes of values that were not tried, and of its rest for one of them.
SHAPES_VALUES_LEFT_SHARE: Final = 0.15
SHAPES_LEFT_SHARE: Final = 0.5
SHAPES_SECONDS: Final = 1.0  # Seconds that a shape may take in any case.

ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""


@dataclass(frozen=True)
class Place:
    """A shape, with the rows that a ``seed`` makes; ``drafting`` says how its paths are drawn."""

    shape: Shape
    seed: int
    drafting: Siblings

    @property
    def tree(self) -> DraftTree:
        """The rows along the likely drafts."""
        return _tree_at(self)

    @property
    def drafts(self) -> list[Paths]:
        """The likely drafts of the request, each alone."""
        return [self.tree.drafts(paths) for paths in self.tree.likely]

    @property
    def batch(self) -> Paths:
        """The likely drafts of the request as requests of one batch."""
        return Paths(*map(np.concatenate, zip(*(one.arrays for one in self.drafts), strict=True)))

    @property
    def chances(self) -> NDArray[np.float64]:
        """The probability of each likely draft, given that it is one of them."""
        chances: NDArray[np.float64] = np.array(list(self.tree.likely.values()))
        return np.asarray(chances / chances.sum())

    @property
    def wanted(self) -> DraftTree:
        """The tree with the target that is to be kept: of a greedy request, its likeliest tokens.

        Of equally likely ones that is the first.
        """
        tree = self.tree
        if self.shape.is_greedy != "itself":
            return tree

        def rows(context: Context) -> RowPair:
            target, draft = tree.rows(context)
            return one_hot(tree.vocab_size, int(target.argmax())), draft

        return replace(tree, rows=rows)


@lru_cache(maxsize=2)  # rows at full vocabularies take many megabytes
def _tree_at(place: Place) -> DraftTree:
    return tree_of(place.shape, place.seed, place.drafting)


Laws: TypeAlias = Callable[[Place, float], Sequence[ConditionalLaw]]
"""Finds what one request emits at a place, after each likely draft, up to a processor time."""

Many: TypeAlias = Callable[[int], NDArray[np.int64]]
"""Makes so many ordinary calls at a place; returns the cells of their completions."""

Confirm: TypeAlias = Callable[[TracedExperiment], object]
"""Raises `NoEvidenceError` where a call that was traced as wrong may be right."""


def not_sampled(_: int) -> NDArray[np.int64]:
    """Make no calls: of code whose every outcome is enumerated."""
    return np.empty(0, np.int64)


def experiment_at(place: Place, laws: Laws, facts: Facts, many: Many = not_sampled) -> Experiment:
    """Return the experiment of one call: ``laws`` trace it, ``many`` makes ordinary calls.

    Its total variation is that beyond what rounding does to single tokens. Rounding of all of them, what is
    on record in ``facts``, and the drafts that are not tried explain some more. Code may compute in
    `ENGINES`, or in the type of its rows where that is coarser.
    """
    shape, tree = place.shape, place.tree
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    rounding = tolerance(coarsest, tree.draft_length, tree.vocab_size)
    allowed = max(facts.explained(shape.draft_length + 1), rounding) + tree.unseen

    def trace(_: int, end: float) -> TracedOutcome:
        account, found = Account(place.wanted), laws(place, end)
        for paths, law in zip(place.tree.likely, found, strict=True):
            account.add(paths, law)
        gap = account.total_variation(2 * unit_roundoff(coarsest))
        outcome = TracedOutcome({}, len(found), total_variation=gap, assumed=account.assumed)
        if gap <= allowed:
            return outcome
        cells = dict(enumerate(TreeCells(place.wanted).law_of(account.following).tolist()))
        is_decided = not all(law.is_certain for law in found)
        return replace(outcome, law=cells, is_decided=is_decided, remark=_largest_gap(account))

    return Experiment(
        what=str(shape),
        size="a completion",
        expect=lambda: dict(enumerate(TreeCells(place.wanted).law.tolist())),
        many=cast(Callable[[int], Sequence[int]], many),
        trace=trace,
        allowed=allowed,
    )


def _largest_gap(account: Account) -> str:
    beginning, token, expected, found = account.largest_gap()
    after = f"after tokens {','.join(map(str, beginning))}" if beginning else "at position 0"
    return f": {after}, token {token} is emitted with probability {found:.4g}, {expected:.4g} expected"


def short(error: Exception) -> str:
    """Return the first line of an error, without its place in the code."""
    first = str(error).partition("\n")[0].partition(" (at ")[0]
    return first.removesuffix("; sampled instead")[:100]


def at_one_place(
    experiment: Experiment, confirm: Confirm = lambda _: None, end: float = math.inf
) -> CheckResult:
    """Trace one call at a place, until a processor time; errors are those of its laws, and of ``confirm``."""
    found = traced_at(experiment, end)
    if found.is_wrong:
        confirm(found)
    return said_of(found)


def said_of(found: TracedExperiment) -> CheckResult:
    """Return the total variation at a place, and the token with the largest gap of a wrong one."""
    size = found.total_variation
    says = f"total variation {size:.3g} at {found.experiment.what}{found.traced.remark}"
    if found.is_wrong:
        return failed(says, total_variation=size, how=How.PROVEN)
    return passed(says, how=How.PROVEN)


def traced_at(experiment: Experiment, end: float = math.inf) -> TracedExperiment:
    """Trace one call, up to a processor time; errors are those of its laws."""
    return TracedExperiment(experiment, experiment.traced(0, end))


@dataclass
class TriedShapes:
    """The places that were ``traced`` up to now, and those that were not, by reason.

    ``make`` returns the experiment of one call at a place, whose paths are drawn by ``drafting``; one that is
    wrong is handed to ``confirm``. ``sampled`` shapes were sampled; ``refused`` are values by axis at which
    the code raised, with the reason; ``raised`` are other shapes at which it did; ``seconds`` were taken by
    so many ``units`` of `cost`; ``too_many`` is the least vocabulary all tokens of which are too many
    outcomes.
    """

    drafting: Siblings
    make: Callable[[Place], Experiment]
    confirm: Confirm = lambda _: None
    traced: dict[Place, TracedExperiment] = field(default_factory=dict, init=False)
    sampled: list[Shape] = field(default_factory=list, init=False)
    refused: dict[tuple[str, AxisValue], str] = field(default_factory=dict, init=False)
    raised: list[tuple[Shape, str]] = field(default_factory=list, init=False)
    not_traced: list[Place] = field(default_factory=list, init=False)
    left_out: Counter[str] = field(default_factory=Counter, init=False)
    seconds: float = field(default=0.0, init=False)
    units: float = field(default=0.0, init=False)
    too_many: float = field(default=math.inf, init=False)

    @property
    def wrong(self) -> Place | None:
        """The place with the largest distance, if that is a defect."""
        wrong = [place for place, one in self.traced.items() if one.is_wrong]
        return max(wrong, key=lambda place: self.traced[place].total_variation, default=None)

    @property
    def wrong_inputs(self) -> dict[str, object]:
        """The shape that is wrong, and the seed of its rows, by name; nothing where none is."""
        return {"shape": self.wrong.shape, "seed": self.wrong.seed} if self.wrong else {}

    def trace_design(self, design: Design, context: CheckContext, until: float, end: float) -> None:
        """Trace the shapes of a design in their order, until one is wrong, or the processor time is over.

        Those that have every value of every axis come first, ``until`` a time of their own: a value that was
        not tried leaves the audit open. Values that are left over get their cheapest shapes. Then shapes that
        have pairs of values get a part of the budget.
        """
        shapes, count = design.shapes[: context.shapes.most], design.of_values
        self.trace_all(shapes[:count], until, context.seed, effort.SHAPES_ONE_SHARE)
        if context.shapes.most is None:
            seconds = SHAPES_VALUES_LEFT_SHARE * context.budget
            self._trace_values_left(design, context.seed + len(shapes), seconds)
        end = min(end, time.process_time() + SHAPES_PAIRS_SHARE * context.budget)
        self.trace_all(shapes[count:], end, context.seed + count, SHAPES_PAIR_SHARE)

    def _trace_values_left(self, design: Design, seed: int, seconds: float) -> None:
        """Trace the cheapest shape of each value that was not tried in time, unless the code raised there."""
        known = [*(place.shape for place in self.traced), *(shape for shape, _ in self.raised)]
        end = time.process_time() + seconds
        for axis, values in design.axes.items():
            for value in values:
                if all(getattr(shape, axis) != value for shape in known):
                    shape = cheapest(design.axes, axis, value)
                    self.trace_all([shape] if shape else [], end, seed, SHAPES_LEFT_SHARE)
                    known += [shape] if shape else []

    def trace_all(self, shapes: Sequence[Shape], end: float, seed: int, share: float) -> None:
        """Trace shapes until one is wrong, or the processor time is over; rows have seeds from ``seed`` on.

        Each may take a ``share`` of the time that is left. Errors as of `trace`.
        """
        for number, planned in enumerate(shapes, start=seed):
            started = time.process_time()
            if started > end or self.wrong:
                return
            shape, left = self._within_reach(planned), end - started
            limit = started + max(min(SHAPES_SECONDS, left), share * left)
            if error := self.trace(Place(shape, number, self.drafting), limit):
                self.left_out[short(error)] += 1
                if isinstance(error, SubjectRaisedError):
                    self.raised.append((shape, short(error)))
                is_too_many = isinstance(error, TooManyBranchesError)
                if is_too_many and shape.kind not in SPARSE and shape.positions < shape.vocab_size:
                    self.too_many = min(self.too_many, shape.vocab_size)
            self.seconds += time.process_time() - started
            self.units += cost(shape)

    def trace(self, place: Place, end: float = math.inf) -> Exception | None:
        """Trace the call at a place; return the error if it cannot be traced, or if the code raises.

        Raises `ContractError` for what nobody may return, and `NoEvidenceError` where ordinary samples
        contradict what was traced.
        """
        try:
            found = traced_at(self.make(place), end)
            if found.is_wrong:
                self.confirm(found)
        except SubjectRaisedError as error:
            return error
        except (NotTracedError, NoDecisionError) as error:
            self.not_traced.append(place)
            return error
        except NoEvidenceError:
            self.not_traced.append(place)
            raise
        except ContractError as error:
            error.args = (f"{error}, at {place.shape}",)
            raise
        self.traced[place] = found
        return None

    def _within_reach(self, shape: Shape) -> Shape:
        """Return the shape, with sparse rows where others have too many outcomes for this code."""
        if shape.vocab_size >= self.too_many and shape.kind not in SPARSE:
            return replace(shape, kind=SPARSE[0])
        return shape
