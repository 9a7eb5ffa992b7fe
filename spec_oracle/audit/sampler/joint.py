"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is integrated over it, or run beside a reference rule; else completions are sampled. Where samples
decide, all instances are screened; those that detect most are sampled often enough for the G test to detect
any defect of total variation `effort.SAMPLER_TV`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.draftings import FIGURES_OF_TREES, PATHS, ToyDrafts, drafting_called, small_trees
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.exact_comparison import judge_laws, never_happened, scope_of
from spec_oracle.audit.experiment import Broken, Effort, FoundBy, Ledger, TracedOutcome, find
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    How,
    LawResult,
    NoEvidenceError,
    SampledLaw,
    Status,
    remarked,
)
from spec_oracle.audit.sampler.integrated import integrated
from spec_oracle.audit.sampler.paired_with_rule import by_same_noise, by_same_uniforms, compared, pair_by_keys
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys, TakesNoise, TakesUniforms
from spec_oracle.audit.sampler.tracer import Known, confirm_breach, laws_after, traced_law
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import drafting_on
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings

# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.
# Requests of one call of the screening; calls of the test that decides grow to ten times as many.
SAMPLER_BATCH: Final = 1000
SAMPLER_PILOT: Final = 16  # Requests of the first call by which the pace is measured.


def joint(subject: SamplerSubject, context: Context) -> CheckResult:
    """Find the law of one call in the best way that works, by what hands the sampler its randomness.

    Code that can be traced is traced first: what it keeps from call to call would differ else. A way
    that may decide has a part of the rate: all of it if those before it have decided nothing by chance.
    """
    rate, facts, source = context.rate, subject.facts, subject.randomness
    if isinstance(source, TakesKeys):
        return first_that_works([partial(compared, pair_by_keys(source.engine), context, rate)])
    ways: list[Callable[[], CheckResult]] = []
    by_samples = partial(OneCall, subject)
    if isinstance(source, TakesNoise):
        half = replace(context, rate=rate / 2)
        ways = [
            partial(by_same_noise, source.engine, context, rate / 2),
            by_samples(half).sampled,
        ]
    elif isinstance(source, TakesUniforms):
        ways = [
            partial(integrated, source.code, facts, context, rate / 3),
            partial(by_same_uniforms, source.code, facts, context, rate / 3),
            by_samples(context).sampled,
        ]
    else:
        both = FoundBy.BOTH if subject.traceable else FoundBy.SAMPLED
        # Samples cannot say that a distribution is within a bound.
        return by_samples(context).found(both if facts.bound is None else FoundBy.TRACED)
    return first_that_works(ways)


@dataclass
class OneCall:
    """One call on every instance of the context; ``laws`` are those that were traced, by the name of a case.

    Of a tree sampler also one call after draft trees of every kind that it accepts. The kind with the fewest
    trees comes first, and must be traced; kinds that are not traced in time are sampled besides.
    """

    subject: SamplerSubject
    context: Context
    known: Known = field(default_factory=dict, init=False)
    laws: dict[str, EmissionLaw] = field(default_factory=dict, init=False)
    end: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        toys = instances_for(self.context, self.subject.num_paths)
        chains = [
            ToyDrafts(name, name, PATHS, toy, drafting_on(toy, Siblings.INDEPENDENT))
            for name, toy in toys.items()
        ]
        accepts = self.subject.on_trees
        trees = small_trees(accepts, self.context) if accepts else []
        deciding = {*main_instances(toys), *(case.name for case in trees[:1])}
        self.cases = {case.name: case for case in (*trees[:1], *chains, *trees[1:])}
        self.instances = {name: case.instance for name, case in self.cases.items()}
        ways = {name: case.of_trees for name, case in self.cases.items()}
        self.calls = Calls(self.subject.code, self.context.seed, "sampler/joint")
        self.experiments = [
            self.calls.on(
                *(name, case.instance, ways[name]),
                trace=partial(self._traced, case),
                group=case.kind if ways[name] else "",
                decides=name in deciding,
            )
            for name, case in self.cases.items()
        ]

    def found(self, ways: FoundBy) -> LawResult:
        """Trace the random numbers on every instance, or sample completions."""
        some, ledger = effort_of_samples(), Ledger(self.context.budget)
        rest = in_addition() if self.subject.on_trees else None
        how: dict[str, Any] = {"judge": self._judged, "rest": rest, "ledger": ledger, "ways": ways}
        self.end = ledger.due
        result = find(self.experiments, self.context, some, **how)
        return self._with_laws(result, ledger) if ledger.samples and not ledger.found else result

    def sampled(self) -> LawResult:
        """Sample completions."""
        return self.found(FoundBy.SAMPLED)

    def _traced(self, case: ToyDrafts, _: int, end: float) -> TracedOutcome:
        end = min(end, self.end) if case.of_trees and self.laws else end
        law = self.laws[case.name] = law_after_all(case, self.subject, self.context, self.known, end)
        guarded = max(one.guarded for one in self.known.values())
        masses = dict(enumerate(law.extended().reshape(-1).tolist()))
        is_decided = not all(one.is_certain for one in self.known.values())
        return TracedOutcome(masses, is_decided=is_decided, guarded=guarded)

    def _judged(self, ledger: Ledger, broken: Broken | None) -> LawResult:
        """Judge the laws that were traced; raise `NoEvidenceError` where they may not be those of a call."""
        del ledger
        code, failure = self.subject.code, "" if broken is None else f"{broken[0].what}: {broken[1]}"
        anywhere = partial(traced_law, code, known=self.known)  # whoever needs more limits the time
        # What a chain shows of the rule says nothing of trees.
        after = None if self.subject.on_trees else partial(laws_after, code, known=self.known)
        how: dict[str, Any] = {"how": "traced", "where": self._where(), "failure": failure, "after": after}
        judged = judge_laws(self.laws, self.instances, self.subject.facts, anywhere, **how)
        found = self._of_one_kind(judged) if self.subject.on_trees else judged
        if broken is not None:
            is_output = isinstance(broken[1], ImpossibleOutputError) or found.findings.worst is not None
            return found if is_output else replace(found, cause=Cause.BROKEN_CONTRACT)
        return found

    def _where(self) -> str:
        """Return on what the distributions were traced, "" for the instances alone."""
        cases = [self.cases[name] for name in self.laws]
        toys, kinds = {case.toy for case in cases}, {case.kind for case in cases}
        of_kinds = f"{len(toys)} toy instances x {len(kinds)} kinds of drafts"
        return of_kinds if self.subject.on_trees else ""

    def _of_one_kind(self, found: LawResult) -> LawResult:
        """Return the result with the figures of chains, or of the trees for which the sampler is wrong."""
        findings, code, accepts = found.findings, self.subject.code, self.subject.on_trees
        shown = self.cases[findings.worst].kind if findings.worst else PATHS
        of_kind = {name: law for name, law in self.laws.items() if self.cases[name].kind == shown}
        found = replace(found, findings=replace(findings, laws=of_kind))
        if shown == PATHS or findings.elsewhere is None:
            return found

        def law_of(instance: Instance, **how: Any) -> EmissionLaw:
            drafting = drafting_called(shown, accepts, instance)
            return traced_law(code, instance, self.known, drafting=drafting, **how)

        def optimum_of(instance: Instance) -> float:
            return float(tree_optimum(instance, drafting_called(shown, accepts, instance)).value)

        elsewhere = replace(findings.elsewhere, law_of=law_of, optimum_of=optimum_of)
        findings = replace(findings, laws=of_kind, elsewhere=elsewhere)
        notes = (*found.remarks.notes, FIGURES_OF_TREES.format(shown))
        return replace(remarked(found, notes=notes), findings=findings)

    def _with_laws(self, result: LawResult, ledger: Ledger) -> LawResult:
        """Return what was sampled with the figures of every instance."""
        names = {f"instance {name!r}": name for name in self.instances}
        laws = {
            names[what]: SampledLaw(
                self.instances[names[what]],
                sample.law,
                sample.counts,
                self.calls.lengths[names[what]],
            )
            for what, sample in ledger.samples.items()
            if sample.counts.any()
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
        instead = "the declared bound is not decided" if subject.facts.bound else "sampled instead"
        raise NoEvidenceError(f"could not trace the random numbers, {instead}: {error}") from None


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


def in_addition() -> Effort:
    """Return how much is sampled of trees in addition to what was traced: as much as there is time for."""
    return effort_of_samples(tv=math.inf, wanted=effort.SAMPLER_TV)


def effort_of_samples(**changes: float) -> Effort:
    """Return how much is sampled of samplers, and of rules called as such."""
    usual = Effort(
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
    return replace(usual, **changes)  # type: ignore[arg-type]
