"""The output distribution of one call of a rule, by running every outcome of every decision."""

import math
from collections.abc import Sequence
from functools import partial

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.shapes.cells import likely_drafts
from spec_oracle.audit.shapes.places import experiment_at, said_of, traced_at
from spec_oracle.audit.shapes.trees import Place, Shape
from spec_oracle.contracts import raising
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import NotTracedError
from verifiers import Drafts
from verifiers.errors import InvalidInputError


@part
def enumerated_shape(
    subject: RuleSubject, context: Context, rate: float, *, shape: Shape, seed: int, end: float = math.inf
) -> CheckResult:
    """Enumerate the rule at one shape, until the processor time ``end``, and compare with the target."""
    del context, rate
    return said_of(traced_at(at_place(subject, Place(shape, seed, subject.drafting)), end))


def at_place(subject: RuleSubject, place: Place) -> Experiment:
    """Return the experiment of one call at a place, whose outcomes are enumerated."""
    return experiment_at(place, partial(_laws, subject), subject.facts)


def _laws(subject: RuleSubject, place: Place, until: float) -> Sequence[ConditionalLaw]:
    """Enumerate the rule after each likely draft of a place."""
    drafts = Drafts.of_paths(*likely_drafts(place.tree).arrays)
    array, dtype = subject.array, place.shape.dtype
    try:
        with raising():
            return conditional_laws(subject.rule, drafts, array=array, dtype=dtype, end=until)
    except InvalidInputError as error:
        raise NotTracedError(f"the rule does not take this size: {error}") from None
