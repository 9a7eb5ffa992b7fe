"""Traces the shapes of a design, and keeps what was found at each: within its time, and up to a defect."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

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


def short(error: Exception) -> str:
    """Return the first line of an error, without its place in the code."""
    first = str(error).partition("\n")[0].partition(" (at ")[0]
    return first.removesuffix("; sampled instead")[:100]


@dataclass
class TriedShapes:
    """The places that were ``traced`` up to now, and those that were not, by reason.

    ``make`` returns the experiment of one call at a place, whose paths are drawn by ``drafting``. ``sampled``
    shapes were sampled; ``refused`` are values by axis at which the code raised, with the reason; ``raised``
    are other shapes at which it did; ``seconds`` were taken by so many ``units`` of `cost`.
    """

    drafting: Siblings
    make: Callable[[Place], Experiment]
    traced: dict[Place, TracedExperiment] = field(default_factory=dict, init=False)
    sampled: list[Shape] = field(default_factory=list, init=False)
    refused: dict[tuple[str, AxisValue], str] = field(default_factory=dict, init=False)
    raised: list[tuple[Shape, str]] = field(default_factory=list, init=False)
    not_traced: list[Place] = field(default_factory=list, init=False)
    left_out: Counter[str] = field(default_factory=Counter, init=False)
    seconds: float = field(default=0.0, init=False)
    units: float = field(default=0.0, init=False)

    @property
    def wrong(self) -> Place | None:
        """The place with the largest distance, if that is a defect."""
        wrong = [place for place, one in self.traced.items() if one.is_wrong]
        return max(wrong, key=lambda place: self.traced[place].total_variation, default=None)

    @property
    def wrong_inputs(self) -> dict[str, object]:
        """The shape that is wrong, and the seed of its rows, by name; nothing where none is."""
        return {"shape": self.wrong.shape, "seed": self.wrong.seed} if self.wrong else {}

    def trace_design(self, design: Design, context: Context, until: float, end: float) -> None:
        """Trace the shapes of a design in their order, until one is wrong, or the processor time is over.

        Those that have every value of every axis come first, ``until`` a time of their own: a value that was
        not tried leaves the audit open. Values that are left over get their cheapest shapes. Then shapes that
        have pairs of values get a part of the budget.
        """
        shapes, count = design.shapes[: context.shapes.most], design.of_values
        self.trace_all(shapes[:count], until, context.seed, SHAPES_ONE_SHARE)
        if context.shapes.most is None:
            seconds = SHAPES_VALUES_LEFT_SHARE * context.budget
            self._trace_values_left(design, context.seed + len(shapes), seconds)
        end = min(end, time.process_time() + SHAPES_PAIRS_SHARE * context.budget)
        self.trace_all(shapes[count:], end, context.seed + count, SHAPES_PAIR_SHARE)

    def _trace_values_left(self, design: Design, seed: int, seconds: float) -> None:
        """Trace the cheapest shape of each value that was not tried in time, unless the code raised there.

        Each may take its part of the time that is left, by its cost: a single one all of it.
        """
        known = [*(place.shape for place in self.traced), *(shape for shape, _ in self.raised)]
        end, left = time.process_time() + seconds, list[Shape]()
        for axis, values in design.axes.items():
            for value in values:
                if all(getattr(shape, axis) != value for shape in (*known, *left)):
                    shape = cheapest(design.axes, axis, value)
                    left += [shape] if shape else []
        left.sort(key=cost)
        for number, shape in enumerate(left):
            self.trace_all([shape], end, seed, cost(shape) / sum(map(cost, left[number:])))

    def trace_all(self, shapes: Sequence[Shape], end: float, seed: int, share: float) -> None:
        """Trace shapes until one is wrong, or the processor time is over; rows have seeds from ``seed`` on.

        Each may take a ``share`` of the time that is left. Errors as of `trace`.
        """
        for number, shape in enumerate(shapes, start=seed):
            started = time.process_time()
            if started > end or self.wrong:
                return
            left = end - started
            limit = started + max(min(SHAPES_SECONDS, left), share * left)
            if error := self.trace(Place(shape, number, self.drafting), limit):
                self.left_out[short(error)] += 1
                if isinstance(error, SubjectRaisedError):
                    self.raised.append((shape, short(error)))
            self.seconds += time.process_time() - started
            self.units += cost(shape)

    def trace(self, place: Place, end: float = math.inf) -> Exception | None:
        """Trace the call at a place; return the error if it cannot be traced, or if the code raises.

        Raises `ContractError` for what nobody may return, and `NoEvidenceError` where ordinary samples
        contradict what was traced.
        """
        try:
            found = traced_at(self.make(place), end)
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
