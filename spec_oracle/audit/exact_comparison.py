"""Comparison of exact laws of one call with the target's."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import verifiers
from spec_oracle.arrays import Numbers
from spec_oracle.audit.built_in_rules import LawsAfter, declared_length, with_rule
from spec_oracle.audit.declared import ROUNDING, Facts
from spec_oracle.audit.results import (
    Elsewhere,
    Findings,
    How,
    LawResult,
    Number,
    Status,
    check_result,
    with_findings,
)
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import paths_of
from spec_oracle.toy import Instance
from verifiers import Siblings, drafting_of


def judge_laws(
    laws: Mapping[str, EmissionLaw],
    instances: Mapping[str, Instance],
    facts: Facts,
    law_of: Callable[..., EmissionLaw],
    *,
    how: str,
    failure: str = "",
    where: str = "",
    after: Callable[[Instance], LawsAfter] | None = None,
) -> LawResult:
    """Judge the exact laws on ``instances``: the target's, or as near to it as a bound declares.

    ``failure`` says why there is no law on the next instance, where the code broke its contract; ``how``
    completes "every outcome was ...", ``where`` says on what, if not on the instances. ``after`` returns the
    laws after each draft of an instance, for code that declares no rule: if it is lossless, it may be found
    to be one.
    """
    gap, bound = max((float(law.total_variation) for law in laws.values()), default=0.0), facts.bound
    worst = max(laws, key=lambda name: distance(laws[name], facts), default="")
    wrong = bool(worst) and is_wrong(laws[worst], facts)
    findings = Findings(
        laws,
        instances,
        worst if wrong else None,
        total_variation=gap,
        smallest_detectable_tv=facts.tolerance,
        elsewhere=Elsewhere(law_of, partial(is_wrong, facts=facts) if bound else None),
        length=declared_length(laws, facts, facts.tolerance),
    )

    def said(status: Status, detail: str) -> LawResult:
        scope = (scope_of("exact output distribution", instances.values()),)
        size = None if failure else gap
        return with_findings(
            check_result(status, detail, how=How.PROVEN, total_variation=size, scope=scope), findings
        )

    compared = bound.compared(distance(laws[worst], facts), worst) if bound and worst else ""
    if failure or wrong:
        is_off = f"total variation {gap:.3g} on instance {worst!r}"
        return said(Status.FAILED, failure or (f"exceeds its bound: {compared}" if bound else is_off))
    if bound is not None:
        return said(Status.PASSED, f"within its bound: {compared}")
    if missing := never_happened(law.accepted_length_pmf for law in laws.values()):
        return said(Status.INCONCLUSIVE, f"on these instances it {missing}")
    if after is not None and facts.rule_at is None:
        toys = [law.instance for law in laws.values()]
        found = [(toy, paths_of(toy, Siblings.INDEPENDENT), after(toy)) for toy in toys]
        names = verifiers.names()
        wanting = [one for one in names if drafting_of(verifiers.get(one)) is Siblings.INDEPENDENT]
        findings = with_rule(findings, found, wanting)
    size = f"at most {gap:.1e}" if facts.tolerance else "exactly 0"
    rounding = " (float32 rounding)" if gap > ROUNDING else ""
    on = where or f"{len(laws)} toy instances"
    return said(Status.PASSED, f"total variation {size}{rounding} on {on}, every outcome {how}")


def distance(law: EmissionLaw, facts: Facts) -> float:
    """Return how far a law is from the target's: by the measure of the declared bound, if there is one."""
    return facts.bound.figure(law) if facts.bound else float(law.total_variation)


def is_wrong(law: EmissionLaw, facts: Facts) -> bool:
    """Whether a law is farther from the target's than rounding and the declared bound explain."""
    return distance(law, facts) > facts.tolerance + (facts.bound.most if facts.bound else 0.0)


def never_happened(lengths: Iterable[Sequence[Number] | Numbers]) -> str:
    """Say what never happened, "" where all did; ``lengths`` are laws or counts [L+1] of accepted lengths."""
    listed = list(lengths)
    if not any(some[-1] > 0 for some in listed):
        return "never accepted a whole draft, so no bonus token"
    if not any(sum(some[:-1]) > 0 for some in listed):
        return "never rejected a draft"
    return ""


def scope_of(what: str, instances: Collection[Instance]) -> str:
    """Return a line that says on which instances the distribution of one call was found, and how."""
    sizes = {f"V = {i.vocab_size}, L = {i.draft_length}, K = {i.num_paths}": None for i in instances}
    return f"one call: {what} on {len(instances)} toy instances ({'; '.join(sizes)})"
