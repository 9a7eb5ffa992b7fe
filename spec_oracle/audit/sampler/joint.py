"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is run beside a reference rule; else completions are sampled. Where samples decide, all instances are
screened; those that detect most are sampled often enough for the G test to detect any defect of total
variation `effort.SAMPLER_TV`.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.draftings import FIGURES_OF_TREES, PATHS, ToyDrafts, drafting_called, small_trees
from spec_oracle.audit.draws import SampledLaw
from spec_oracle.audit.exact_comparison import judge_laws, never_happened, scope_of
from spec_oracle.audit.experiment import Broken, FoundBy, Ledger, find
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import Cause, CheckResult, LawResult, NoEvidenceError, Status, remarked
from spec_oracle.audit.sampler.on_toys import CallsOnToys, effort_of_samples, in_addition
from spec_oracle.audit.sampler.paired_with_rule import beside_a_rule
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import laws_after, traced_law
from spec_oracle.contracts import ImpossibleOutputError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import paths_of
from spec_oracle.optimum import tree_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings


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
    """One call on every instance of the context.

    Of a tree sampler also one call after draft trees of every kind that it accepts. The kind with the fewest
    trees comes first, and must be traced; kinds that are not traced in time are sampled besides.
    """

    def __init__(self, subject: SamplerSubject, context: Context) -> None:
        self.subject, self.context = subject, context
        toys = instances_for(context, subject.num_paths)
        chains = [
            ToyDrafts(name, name, PATHS, toy, paths_of(toy, Siblings.INDEPENDENT))
            for name, toy in toys.items()
        ]
        trees = small_trees(subject.on_trees, context) if subject.on_trees else []
        self.deciding = {*main_instances(toys), *(case.name for case in trees[:1])}
        self.cases = {case.name: case for case in (*trees[:1], *chains, *trees[1:])}
        self.instances = {name: case.instance for name, case in self.cases.items()}
        self.on_toys = CallsOnToys(subject, context, "sampler/joint", self.cases)

    def found(self, ways: FoundBy) -> LawResult:
        """Trace the random numbers on every instance, or sample completions."""
        ledger, rest = self.on_toys.ledger, in_addition() if self.subject.on_trees else None
        experiments = [
            self.on_toys.experiment(
                name, group=case.kind if case.of_trees else "", decides=name in self.deciding
            )
            for name, case in self.cases.items()
        ]
        how: dict[str, Any] = {"judge": self._judged, "rest": rest, "ledger": ledger, "ways": ways}
        result = find(experiments, self.context, effort_of_samples(), **how)
        return self._with_laws(result, ledger) if ledger.samples and not ledger.found else result

    def traced(self) -> LawResult:
        """Trace the random numbers on every instance; raise `NoEvidenceError` where that cannot be done."""
        result = self.found(FoundBy.TRACED)
        if result.how is None:
            raise NoEvidenceError(result.detail)
        return result

    def sampled(self) -> LawResult:
        """Sample completions."""
        return self.found(FoundBy.SAMPLED)

    def _judged(self, _: Ledger, broken: Broken | None) -> LawResult:
        """Judge the laws that were traced; raise `NoEvidenceError` where they may not be those of a call."""
        code, known, is_on_trees = self.subject.code, self.on_toys.known, bool(self.subject.on_trees)
        found = judge_laws(
            self.on_toys.laws,
            self.instances,
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
        cases = [self.cases[name] for name in self.on_toys.laws]
        toys, kinds = {case.toy for case in cases}, {case.kind for case in cases}
        return f"{len(toys)} toy instances x {len(kinds)} kinds of drafts"

    def _of_one_kind(self, found: LawResult) -> LawResult:
        """Return the result with the figures of chains, or of the trees for which the sampler is wrong."""
        findings, on_toys, accepts = found.findings, self.on_toys, self.subject.on_trees
        shown = self.cases[findings.worst].kind if findings.worst else PATHS
        of_kind = {name: law for name, law in on_toys.laws.items() if self.cases[name].kind == shown}
        findings = replace(findings, laws=of_kind)
        if shown == PATHS or findings.elsewhere is None:
            return replace(found, findings=findings)

        def law_of(instance: Instance, **how: Any) -> EmissionLaw:
            drafting = drafting_called(shown, accepts, instance)
            return traced_law(self.subject.code, instance, on_toys.known, drafting=drafting, **how)

        def optimum_of(instance: Instance) -> float:
            return float(tree_optimum(instance, drafting_called(shown, accepts, instance)).value)

        elsewhere = replace(findings.elsewhere, law_of=law_of, optimum_of=optimum_of)
        notes = (*found.remarks.notes, FIGURES_OF_TREES.format(shown))
        return replace(remarked(found, notes=notes), findings=replace(findings, elsewhere=elsewhere))

    def _with_laws(self, result: LawResult, ledger: Ledger) -> LawResult:
        """Return what was sampled with the figures of every instance."""
        names = {f"instance {name!r}": name for name in self.instances}
        lengths = self.on_toys.calls.lengths
        laws = {
            (name := names[what]): SampledLaw(self.instances[name], one.law, one.counts, lengths[name])
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
