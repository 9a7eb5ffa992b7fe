"""The places of a design in their order, each with a time of its own, and what was found at them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import Design, cheapest, cost
from spec_oracle.audit.effort import SHAPES_ONE_SHARE
from spec_oracle.audit.experiment import Experiment, NoDecisionError, TracedExperiment
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.shapes.axes import AxisValue
from spec_oracle.audit.shapes.places import traced_at
from spec_oracle.audit.shapes.trees import Place, Shape
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.errors import NotTracedError
from verifiers import Siblings

SHAPES_PAIR_SHARE: Final = 0.03  # Share of the time left for one of the shapes that have pairs of values.
# Share of the budget for all shapes that have pairs of values: the last ones have few new pairs. A flat torch
# sampler gets 92 % of them in a share of 0.15, and 94 % in one of 0.25.
SHAPES_PAIRS_SHARE: Final = 0.15
# Share of the budget for the cheapest shapes of values that were not tried.
SHAPES_VALUES_LEFT_SHARE: Final = 0.15
SHAPES_SECONDS: Final = 1.0  # Seconds that a shape may take in any case.

One = TypeVar("One")


def short(error: Exception) -> str:
    """Return the first line of an error, without its place in the code."""
    first = str(error).partition("\n")[0].partition(" (at ")[0]
    return first.removesuffix("; sampled instead")[:100]


@dataclass
class TriedInTurn(Generic[One]):
    """What was ``traced`` of some experiments, ``not_traced``, or ``raised`` an error of the code.

    ``make`` returns the experiment of one, such as a place. Each stands alone, which in `find` it does not:
    where one is not traced, the others go on, and samples of a few stand for all. ``left_out`` counts why.
    Of places: ``sampled`` shapes were sampled; ``refused`` are values by axis at which the code raised, with
    the reason; ``seconds`` were taken by so many ``units`` of `cost`.
    """

    make: Callable[[One], Experiment]
    not_traced: list[One] = field(default_factory=list)
    traced: dict[One, TracedExperiment] = field(default_factory=dict, init=False)
    raised: dict[One, SubjectRaisedError] = field(default_factory=dict, init=False)
    left_out: Counter[str] = field(default_factory=Counter, init=False)
    sampled: list[Shape] = field(default_factory=list, init=False)
    refused: dict[tuple[str, AxisValue], str] = field(default_factory=dict, init=False)
    seconds: float = field(default=0.0, init=False)
    units: float = field(default=0.0, init=False)

    @property
    def wrong(self) -> One | None:
        """The one with the largest distance, if that is a defect."""
        wrong = [one for one, found in self.traced.items() if found.is_wrong]
        return max(wrong, key=lambda one: self.traced[one].total_variation, default=None)

    def trace_all(self, listing: Iterable[tuple[One, float]]) -> None:
        """Trace what is listed, each up to a processor time, until one is wrong; errors as of `trace`."""
        for one, end in listing:
            if self.wrong is not None:
                return
            if error := self.trace(one, end):
                self.left_out[short(error)] += 1
                if isinstance(error, SubjectRaisedError):
                    self.raised[one] = error

    def trace(self, one: One, end: float) -> Exception | None:
        """Trace up to a processor time; return the error if it cannot be traced, or if the code raises.

        Raises `ContractError` for what nobody may return, and `NoEvidenceError` where ordinary samples
        contradict what was traced.
        """
        experiment = self.make(one)
        try:
            self.traced[one] = traced_at(experiment, end)
        except SubjectRaisedError as error:
            return error
        except (NotTracedError, NoDecisionError) as error:
            self.not_traced.append(one)
            return error
        except NoEvidenceError:
            self.not_traced.append(one)
            raise
        except ContractError as error:
            error.args = (f"{error}, at {experiment.what}",)
            raise
        return None


def in_turn(
    tried: TriedInTurn[Place],
    design: Design,
    drafting: Siblings,
    context: Context,
    *,
    until: float,
    end: float,
) -> Iterator[tuple[Place, float]]:
    """Yield the places of a design in their order, each with its time, until the processor time is over.

    Those that have every value of every axis come first, ``until`` a time of their own: a value that was not
    tried leaves the audit open. Values that are left over get their cheapest shapes, and each may take its
    part of the time that is left, by its cost: a single one all of it. Then shapes that have pairs of values
    get a part of the budget. Paths are drawn by ``drafting``.
    """

    def some(shapes: Sequence[Shape], end: float, seed: int, share: float) -> Iterator[tuple[Place, float]]:
        """Yield places whose rows have seeds from ``seed`` on; each may take a ``share`` of the time left."""
        for number, shape in enumerate(shapes, start=seed):
            started = time.process_time()
            if started > end:
                return
            left = end - started
            yield Place(shape, number, drafting), started + max(min(SHAPES_SECONDS, left), share * left)
            tried.seconds += time.process_time() - started
            tried.units += cost(shape)

    shapes, count, seed = design.shapes[: context.shapes.most], design.of_values, context.seed
    yield from some(shapes[:count], until, seed, SHAPES_ONE_SHARE)
    if context.shapes.most is None:
        left = _values_left(tried, design)
        until = time.process_time() + SHAPES_VALUES_LEFT_SHARE * context.budget
        for number, shape in enumerate(left):
            yield from some([shape], until, seed + len(shapes), cost(shape) / sum(map(cost, left[number:])))
    end = min(end, time.process_time() + SHAPES_PAIRS_SHARE * context.budget)
    yield from some(shapes[count:], end, seed + count, SHAPES_PAIR_SHARE)


def _values_left(tried: TriedInTurn[Place], design: Design) -> list[Shape]:
    """Return the cheapest shape of each value that was not tried in time, unless the code raised there."""
    known, left = [place.shape for place in (*tried.traced, *tried.raised)], list[Shape]()
    for axis, values in design.axes.items():
        for value in values:
            if all(getattr(shape, axis) != value for shape in (*known, *left)):
                shape = cheapest(design.axes, axis, value)
                left += [shape] if shape else []
    return sorted(left, key=cost)
