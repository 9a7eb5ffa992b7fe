"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is integrated over it, or run beside a reference rule; else completions are sampled. Where samples
decide, all instances are screened; those that detect most are sampled often enough for the G test to detect
any defect of total variation `effort.SAMPLER_TV`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.draws import Calls, SampledLaw
from spec_oracle.audit.exact_comparison import judge_laws, never_happened, scope_of
from spec_oracle.audit.experiment import Broken, Effort, FoundBy, Ledger, TracedOutcome, find
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import Cause, CheckResult, LawResult, NoEvidenceError, Status, remarked
from spec_oracle.audit.sampler.branch_tracing import require_alike
from spec_oracle.audit.sampler.confirm import confirm_breach, require_decisions
from spec_oracle.audit.sampler.integrated import integrated
from spec_oracle.audit.sampler.paired_with_rule import by_same_noise, by_same_uniforms, compared, pair_by_keys
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys, TakesNoise, TakesUniforms
from spec_oracle.audit.sampler.tracer import Known, law_after, laws_after, traced_law
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.toy import Instance

# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.


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
    elif facts.bound is not None:  # samples cannot say that a distribution is within a bound
        ways = [partial(by_samples(context).found, FoundBy.TRACED)]
    else:
        ways = [partial(by_samples(context).found, FoundBy.BOTH if subject.traceable else FoundBy.SAMPLED)]
    return first_that_works(ways)


@dataclass
class OneCall:
    """One call on every instance of the context; ``laws`` are those that were traced."""

    subject: SamplerSubject
    context: Context
    known: Known = field(default_factory=dict, init=False)
    laws: dict[str, EmissionLaw] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.instances = instances_for(self.context, self.subject.num_paths)
        main = main_instances(self.instances)
        self.calls = Calls(self.subject.code, self.context.seed, "sampler/joint")
        self.experiments = [
            self.calls.on(name, one, trace=partial(self._traced, name, one), decides=name in main)
            for name, one in self.instances.items()
        ]

    def found(self, ways: FoundBy) -> LawResult:
        """Trace the random numbers on every instance, or sample completions."""
        some, ledger = effort_of_samples(), Ledger(self.context.budget)
        result = find(self.experiments, self.context, some, ledger=ledger, judge=self._judged, ways=ways)
        return self._with_laws(result, ledger) if ledger.samples else result

    def sampled(self) -> LawResult:
        """Sample completions."""
        return self.found(FoundBy.SAMPLED)

    def _traced(self, name: str, instance: Instance, _: int, end: float) -> TracedOutcome:
        code, facts = self.subject.code, self.subject.facts
        try:
            law = self.laws[name] = traced_law(code, instance, self.known, end=end)
        except ContractError as error:
            confirm_breach(code, error, self.context)
            raise
        except (NotTracedError, SubjectRaisedError) as error:
            instead = "the declared bound is not decided" if facts.bound else "sampled instead"
            raise NoEvidenceError(f"could not trace the random numbers, {instead}: {error}") from None
        guarded = max(one.guarded for one in self.known.values())
        return TracedOutcome(dict(enumerate(law.extended().reshape(-1).tolist())), guarded=guarded)

    def _judged(self, ledger: Ledger, broken: Broken | None) -> LawResult:
        """Judge the laws that were traced; raise `NoEvidenceError` where they may not be those of a call."""
        del ledger
        code, failure = self.subject.code, "" if broken is None else f"{broken[0].what}: {broken[1]}"
        anywhere = partial(traced_law, code, known=self.known)  # whoever needs more limits the time
        after = partial(laws_after, code, known=self.known)
        facts = self.subject.facts
        found = judge_laws(
            self.laws, self.instances, facts, anywhere, how="traced", failure=failure, after=after
        )
        if broken is not None:
            is_output = isinstance(broken[1], ImpossibleOutputError) or found.findings.worst is not None
            return found if is_output else replace(found, cause=Cause.BROKEN_CONTRACT)
        if found.findings.worst is not None:
            require_decisions([*self.known.values()], [*self.laws.values()])
        else:
            first = next(iter(self.instances.values()))
            require_alike(code, first, self.context.stream("sampler/joint/watched"), law_after)
        return found

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


def effort_of_samples(**changes: float) -> Effort:
    """Return how much is sampled of samplers, and of rules called as such."""
    usual = Effort(
        tv=effort.SAMPLER_TV,
        look=effort.SAMPLER_BATCH,
        turns=effort.SAMPLER_FOLLOW_UPS,
        most=10 * effort.SAMPLER_BATCH,
        pilot=effort.SAMPLER_PILOT,
        confirming=CONFIRMING_TV,
        confirming_share=CONFIRMING_SHARE,
        goes_on=True,
        at_once=True,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]
