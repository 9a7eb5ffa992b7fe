"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is run beside a reference rule; else completions are sampled. Where samples decide, all instances are
screened; those that detect most are sampled often enough for the G test to detect any defect of total
variation `effort.SAMPLER_TV`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import FIGURES_OF_TREES, PATHS, ToyDrafts, drafting_called, small_trees
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.exact_comparison import judge_laws, never_happened, scope_of
from spec_oracle.audit.experiment import (
    Broken,
    FoundBy,
    Ledger,
    TracedOutcome,
    find,
    first_that_works,
)
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    LawResult,
    NoEvidenceError,
    SampledLaw,
    Status,
    remarked,
)
from spec_oracle.audit.sampler.paired_with_rule import beside_a_rule
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known, confirm_breach, laws_after, traced_law
from spec_oracle.audit.sampling import Effort
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import drafting_on
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings

# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_SHARE: Final = 0.02  # Share of the budget that these samples may take.
# Requests of one call of the screening; calls of the test that decides grow to ten times as many.
SAMPLER_BATCH: Final = 1000
ROUNDING_OF_SINGLES: Final = 1e-6  # TV of a right distribution whose rows were rounded to float32, at most.
RIGHT_ALONE: Final = (
    "one request alone was traced, and emits the target's distribution; the samples that contradict it come "
    "from calls of many requests"
)
LOOK_AT_BATCHES: Final = (
    "look at what the requests of one call share, random numbers above all, and at branches that only calls "
    "of many requests, or only untraced calls, take"
)
SAMPLER_PILOT: Final = 16  # Requests of the first call by which the pace is measured.


def joint(subject: SamplerSubject, context: Context) -> CheckResult:
    """Find the law of one call in the best way that works, by what hands the sampler its randomness.

    Code that can be traced is traced first: what it keeps from call to call would differ else.
    """
    if subject.facts.bound is not None:  # samples cannot say that a distribution is within a bound
        return OneCall(subject, context).found(FoundBy.TRACED)
    if subject.randomness is None:
        return OneCall(subject, context).found(FoundBy.BOTH if subject.traceable else FoundBy.SAMPLED)
    left = context.after_claims() if subject.traceable else context
    traced = [lambda: OneCall(subject, context).traced()] if subject.traceable else []
    beside, sampled = partial(beside_a_rule, subject, context), lambda: OneCall(subject, left).sampled()
    return first_that_works([*traced, beside, sampled])


class OneCall:
    """One call on every instance of the context; ``laws`` are those that were traced, by the name of a case.

    Of a tree sampler also one call after draft trees of every kind that it accepts. The kind with the fewest
    trees comes first, and must be traced; kinds that are not traced in time are sampled besides.
    """

    def __init__(self, subject: SamplerSubject, context: Context) -> None:
        self.subject, self.context, self.end = subject, context, math.inf
        self.known, self.laws = Known(), dict[str, EmissionLaw]()

    @cached_property
    def cases(self) -> dict[str, ToyDrafts]:
        """What is drafted, by name."""
        chains = [
            ToyDrafts(name, name, PATHS, toy, drafting_on(toy, Siblings.INDEPENDENT))
            for name, toy in instances_for(self.context, self.subject.num_paths).items()
        ]
        trees = small_trees(self.subject.on_trees, self.context) if self.subject.on_trees else []
        return {case.name: case for case in (*trees[:1], *chains, *trees[1:])}

    def found(self, ways: FoundBy) -> LawResult:
        """Trace the random numbers on every instance, or sample completions.

        The first kind of trees decides, and of the instances the main ones.
        """
        some, rest, first = effort_of_samples(), in_addition(), next(iter(self.cases.values()))
        deciding = {*main_instances([name for name, case in self.cases.items() if case.kind == PATHS])}
        deciding |= {first.name} if first.of_trees else set()
        calls = Calls(self.subject.code, self.context.seed, "sampler/joint")
        experiments = [
            calls.on(
                *(name, case.instance, case.of_trees),
                trace=partial(self._traced, case),
                group=case.kind if case.of_trees else "",
                decides=name in deciding,
            )
            for name, case in self.cases.items()
        ]
        ledger = Ledger(self.context.budget)
        how: dict[str, Any] = {"judge": self._judged, "ledger": ledger, "ways": ways}
        how["rest"], self.end = rest if self.subject.on_trees else None, ledger.due
        result = find(experiments, self.context, some, **how)
        is_sampled = bool(ledger.samples) and not ledger.found
        result = self._with_laws(result, ledger, calls.lengths) if is_sampled else result
        return self._wrong_together(result) if is_sampled and deciding <= self.laws.keys() else result

    def traced(self) -> LawResult:
        """Trace the random numbers on every instance; raise `NoEvidenceError` where that cannot be done."""
        result = self.found(FoundBy.TRACED)
        if result.how is None:
            raise NoEvidenceError(result.detail)
        return result

    def sampled(self) -> LawResult:
        """Sample completions."""
        return self.found(FoundBy.SAMPLED)

    def _traced(self, case: ToyDrafts, _: int, end: float) -> TracedOutcome:
        # Where the first takes all of the budget, the others would not be traced either.
        end = min(end, self.end) if case.of_trees or not self.laws else end
        law = self.laws[case.name] = law_after_all(case, self.subject, self.context, self.known, end)
        guarded = max(one.guarded for one in self.known.values())
        masses = dict(enumerate(law.extended().reshape(-1).tolist()))
        is_decided = not all(one.is_certain for one in self.known.values())
        return TracedOutcome(masses, is_decided=is_decided, guarded=guarded)

    def _wrong_together(self, result: LawResult) -> LawResult:
        """Say where to look if one request alone is right, and only samples of many requests are wrong."""
        gap = max(float(law.total_variation) for law in self.laws.values())
        if result.status is not Status.FAILED or gap > ROUNDING_OF_SINGLES:
            return result
        notes = (*result.remarks.notes, RIGHT_ALONE)
        return replace(result, remarks=replace(result.remarks, notes=notes, do=LOOK_AT_BATCHES))

    def _judged(self, _: Ledger, broken: Broken | None) -> LawResult:
        """Judge the laws that were traced; raise `NoEvidenceError` where they may not be those of a call."""
        code, known, is_on_trees = self.subject.code, self.known, bool(self.subject.on_trees)
        found = judge_laws(
            self.laws,
            {name: case.instance for name, case in self.cases.items()},
            self.subject.facts,
            partial(traced_law, code, known=known),  # whoever needs more limits the time
            how="traced",
            where=self._where() if is_on_trees else "",
            failure="" if broken is None else f"{broken[0].what}: {broken[1]}",
            # What a chain shows of the rule says nothing of trees.
            after=None if is_on_trees else partial(laws_after, code, known=known),
        )
        found = self._of_one_kind(found) if is_on_trees else found
        is_output = broken is None or isinstance(broken[1], ImpossibleOutputError)
        is_wrong = is_output or found.findings.worst is not None
        return found if is_wrong else replace(found, cause=Cause.BROKEN_CONTRACT)

    def _where(self) -> str:
        """Return on what the distributions of a tree sampler were traced."""
        cases = [self.cases[name] for name in self.laws]
        toys, kinds = {case.toy for case in cases}, {case.kind for case in cases}
        return f"{len(toys)} toy instances x {len(kinds)} kinds of drafts"

    def _of_one_kind(self, found: LawResult) -> LawResult:
        """Return the result with the figures of chains, or of the trees for which the sampler is wrong."""
        findings, accepts = found.findings, self.subject.on_trees
        shown = self.cases[findings.worst].kind if findings.worst else PATHS
        of_kind = {name: law for name, law in self.laws.items() if self.cases[name].kind == shown}
        findings = replace(findings, laws=of_kind)
        if shown == PATHS or findings.elsewhere is None:
            return replace(found, findings=findings)

        def law_of(instance: Instance, **how: Any) -> EmissionLaw:
            drafting = drafting_called(shown, accepts, instance)
            return traced_law(self.subject.code, instance, self.known, drafting=drafting, **how)

        def optimum_of(instance: Instance) -> float:
            return float(tree_optimum(instance, drafting_called(shown, accepts, instance)).value)

        elsewhere = replace(findings.elsewhere, law_of=law_of, optimum_of=optimum_of)
        notes = (*found.remarks.notes, FIGURES_OF_TREES.format(shown))
        return replace(remarked(found, notes=notes), findings=replace(findings, elsewhere=elsewhere))

    def _with_laws(self, result: LawResult, ledger: Ledger, lengths: Mapping[str, Integers]) -> LawResult:
        """Return what was sampled with the figures of every instance."""
        names = {f"instance {name!r}": name for name in self.cases}
        laws = {
            (name := names[what]): SampledLaw(self.cases[name].instance, one.law, one.counts, lengths[name])
            for what, one in ledger.samples.items()
            if one.counts.any()
        }
        instances = {name: law.instance for name, law in laws.items()}
        worst = names.get(result.findings.worst or "")
        findings = replace(result.findings, laws=laws, instances=instances, worst=worst)
        draws = result.measured.draws
        scope = (scope_of(f"{draws:,} samples", instances.values()), *result.remarks.scope[1:])
        result = replace(remarked(result, scope=scope), findings=findings)
        missing = never_happened(law.lengths for law in laws.values())
        if result.status is Status.PASSED and missing:
            detail = f"in {draws:,} samples it {missing}"
            return replace(result, status=Status.INCONCLUSIVE, detail=detail)
        return result


def law_after_all(
    case: ToyDrafts, subject: SamplerSubject, context: Context, known: Known, end: float
) -> EmissionLaw:
    """Return the traced distribution of one call over all drafts of a case, up to a processor time.

    Raises `NoEvidenceError` where it cannot be traced, `ContractError` for what is no emission.
    """
    try:
        return traced_law(subject.code, case.instance, known, end=end, drafting=case.of_trees)
    except ContractError as error:
        confirm_breach(subject.code, error, context)
        raise
    except (NotTracedError, SubjectRaisedError) as error:
        instead = "sampled instead" if subject.randomness is None else "run beside a rule or sampled instead"
        instead = "the declared bound is not decided" if subject.facts.bound else instead
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
