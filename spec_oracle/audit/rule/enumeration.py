"""The output distribution of one call of a rule, by running every outcome of every decision."""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.cells import likely_drafts
from spec_oracle.audit.shapes.places import at_one_place, experiment_at
from spec_oracle.audit.shapes.trees import SPARSE, Place, Shape
from spec_oracle.contracts import raising
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotInTimeError, NotTracedError, require_time
from verifiers import Drafts
from verifiers.errors import InvalidInputError

_LONGER: Final = 2.0
"""So many times the time that was too little for a smaller size: then a larger one is tried."""


class SlowSizes:
    """Sizes for which the time was too little, and how long it was, in seconds.

    What is as large in every way has at least as many outcomes, and is not tried in the same time. ``()`` is
    a size of which nothing is known.
    """

    def __init__(self) -> None:
        self._known: list[tuple[tuple[int, ...], float]] = []

    def add(self, size: tuple[int, ...], seconds: float) -> None:
        """Take note of a size that could not be run in so many seconds."""
        if size:
            self._known.append((size, seconds))

    def has(self, size: tuple[int, ...], seconds: float) -> bool:
        """Whether a size would take more than so many seconds, by a smaller one that took too long."""
        return bool(size) and any(
            seconds < _LONGER * too_little
            and all(own >= least for own, least in zip(size, smaller, strict=True))
            for smaller, too_little in self._known
        )


@part
def enumerated_shape(
    subject: RuleSubject, context: Context, rate: float, *, shape: Shape, seed: int, end: float = math.inf
) -> CheckResult:
    """Enumerate the rule at one shape, until the processor time ``end``, and compare with the target."""
    del context, rate
    return at_one_place(at_place(subject, SlowSizes(), Place(shape, seed, subject.drafting)), end=end)


def at_place(subject: RuleSubject, slow: SlowSizes, place: Place) -> Experiment:
    """Return the experiment of one call at a place, whose outcomes are enumerated."""
    return experiment_at(place, partial(_laws, subject, slow), subject.facts)


def _laws(subject: RuleSubject, slow: SlowSizes, place: Place, until: float) -> Sequence[ConditionalLaw]:
    """Enumerate the rule after each likely draft of a place, unless a smaller one took too long."""
    shape, seconds = place.shape, until - time.process_time()
    size = (shape.kind not in SPARSE, shape.vocab_size, shape.draft_length, shape.num_paths)
    if slow.has(size, seconds):
        require_time(-math.inf)
    try:
        with raising():
            how = {"array": subject.array, "dtype": shape.dtype}
            return conditional_laws(
                subject.rule, Drafts.of_paths(*likely_drafts(place.tree).arrays), **how, end=until
            )
    except NotInTimeError:
        slow.add(size, seconds)
        raise
    except InvalidInputError as error:
        raise NotTracedError(f"the rule does not take this size: {error}") from None
