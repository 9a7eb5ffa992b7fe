"""Calls of a sampler on toy instances: how they are traced after all drafts, and how much is sampled."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import ToyDrafts
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.experiment import Effort, Experiment, Ledger, TracedOutcome
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known, confirm_breach, traced_law
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.interception import NotTracedError

# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.
# Requests of one call of the screening; calls of the test that decides grow to ten times as many.
SAMPLER_BATCH: Final = 1000
SAMPLER_PILOT: Final = 16  # Requests of the first call by which the pace is measured.


class CallsOnToys:
    """One call after the drafts of each case, as experiments; ``laws`` are those that were traced, by name.

    The ``ledger`` keeps them within the budget: trees beyond the first case are not traced in overtime.
    """

    def __init__(
        self, subject: SamplerSubject, context: Context, name: str, cases: Mapping[str, ToyDrafts]
    ) -> None:
        self.subject, self.context, self.cases = subject, context, cases
        self.calls, self.ledger = Calls(subject.code, context.seed, name), Ledger(context.budget)
        self.known: Known = {}
        self.laws: dict[str, EmissionLaw] = {}

    def experiment(self, name: str, **more: Any) -> Experiment:
        """Return the experiment of one call after the drafts of a case; ``more`` are other fields of it."""
        case = self.cases[name]
        trace = partial(self._traced, name)
        return self.calls.on(name, case.instance, case.of_trees, trace=trace, **more)

    def _traced(self, name: str, _: int, end: float) -> TracedOutcome:
        case = self.cases[name]
        end = min(end, self.ledger.due) if case.of_trees and self.laws else end
        law = self.laws[name] = self._law(case, end)
        guarded = max(one.guarded for one in self.known.values())
        masses = dict(enumerate(law.extended().reshape(-1).tolist()))
        is_decided = not all(one.is_certain for one in self.known.values())
        return TracedOutcome(masses, is_decided=is_decided, guarded=guarded)

    def _law(self, case: ToyDrafts, end: float) -> EmissionLaw:
        """Trace one call after all drafts of a case, up to a processor time.

        Raises `NoEvidenceError` where it cannot be traced, `ContractError` for what is no emission.
        """
        code, is_drawing = self.subject.code, self.subject.randomness is None
        try:
            return traced_law(code, case.instance, self.known, end=end, drafting=case.of_trees)
        except ContractError as error:
            confirm_breach(code, error, self.context)
            raise
        except (NotTracedError, SubjectRaisedError) as error:
            instead = "sampled instead" if is_drawing else "run beside a rule or sampled instead"
            instead = "the declared bound is not decided" if self.subject.facts.bound else instead
            raise NoEvidenceError(f"could not trace the random numbers, {instead}: {error}") from None


def in_addition() -> Effort:
    """Return how much is sampled of trees in addition to what was traced: as much as there is time for."""
    return replace(effort_of_samples(), tv=math.inf, wanted=effort.SAMPLER_TV)


def effort_of_samples() -> Effort:
    """Return how much is sampled of samplers."""
    return Effort(
        tv=effort.SAMPLER_TV,
        look=SAMPLER_BATCH,
        turns=effort.SAMPLER_FOLLOW_UPS,
        most=10 * SAMPLER_BATCH,
        pilot=SAMPLER_PILOT,
        confirming=CONFIRMING_TV,
        confirming_share=CONFIRMING_SHARE,
        goes_on=True,
        at_once=True,
    )
