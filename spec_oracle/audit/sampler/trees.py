"""Tree samplers after larger draft trees: the part of the check `shapes` that chains do not show.

The code is run after every tree of each kind of `spec_oracle.audit.larger_trees`, those with the fewest trees
first. Kinds that are not traced in this time are sampled.
"""

from functools import partial

from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import ToyDrafts
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.experiment import FoundBy, Ledger, TracedOutcome, find
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import How, LawResult, remarked
from spec_oracle.audit.sampler.joint import in_addition, law_after_all
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known


def after_larger_trees(subject: SamplerSubject, context: Context) -> LawResult:
    """Say whether the distribution of one call is right after larger trees."""
    calls, known = Calls(subject.code, context.seed, "sampler/shapes/trees"), Known()
    ledger, explained = Ledger(context.budget), subject.facts.explained

    def traced(case: ToyDrafts, _: int, end: float) -> TracedOutcome:
        end = min(end, ledger.due) if ledger.found else end
        law = law_after_all(case, subject, context, known, end)
        return TracedOutcome(dict(enumerate(law.extended().reshape(-1).tolist())))

    experiments = [
        calls.on(
            *(str(case), case.instance, case.drafting),
            trace=partial(traced, case),
            group=str(case),
            allowed=explained(case.instance.draft_length + 1),
        )
        for case in later_sizes(subject.on_trees, context.seed)
    ]
    joint = context.results.get("joint")
    ways = FoundBy.SAMPLED if joint is not None and joint.how is How.SAMPLED else FoundBy.BOTH
    found = find(experiments, context, in_addition(), rest=in_addition(), ledger=ledger, ways=ways)
    return with_kinds(found, ledger)


def with_kinds(found: LawResult, ledger: Ledger) -> LawResult:
    """Return the result with a line on what was traced, and one on what was only sampled."""
    traced = [one.experiment.group for one in ledger.found]
    lines = [f"exact output distribution of one call: {'; '.join(traced)}"] if traced else []
    untraced = {group: why for group, why in ledger.untraced.items() if traced}
    lines += [f"sampled, not traced in this time: {'; '.join(untraced)}"] if untraced else []
    notes = [note for note in found.remarks.notes if note.partition(": ")[0] not in untraced]
    return remarked(found, scope=(*lines, *found.remarks.scope[1 if traced else 0 :]), notes=tuple(notes))
