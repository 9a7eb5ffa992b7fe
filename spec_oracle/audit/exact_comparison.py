"""Comparison of exact laws with the target's and with those of rules, which may identify the rule."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

import verifiers
from spec_oracle.arrays import Numbers
from spec_oracle.audit.declared import ROUNDING, Facts
from spec_oracle.audit.results import (
    CheckResult,
    Elsewhere,
    Findings,
    How,
    LawResult,
    Measured,
    Number,
    Remarks,
    Status,
    failed,
    passed,
)
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable, drafting_on
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.drafting import Drafting, ShapedTrees
from spec_oracle.toy import Instance
from verifiers import ModelBound, Siblings, StatefulVerifier, accepts_of, drafting_of, traits_of

LawsAfter: TypeAlias = Mapping[int, ConditionalLaw]
"""The law of what is emitted after drafts of an instance, by their rows in its `DraftTable`."""

NO_BONUS: Final = "never accepted a whole draft, so no bonus token"
BY_THE_CALLER: Final = (
    "if the function leaves the token after a whole draft to its caller, let the adapter sample it from "
    "target_probs[:, -1] and count the whole draft as accepted"
)

_FEW = 8


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
    compared = bound.compared(distance(laws[worst], facts), worst) if bound and worst else ""
    findings = Findings(
        laws,
        instances,
        worst if wrong else None,
        total_variation=gap,
        smallest_detectable_tv=facts.tolerance,
        elsewhere=Elsewhere(law_of, partial(is_wrong, facts=facts) if bound else None),
        length=declared_length(laws, facts, facts.tolerance),
    )
    is_off = f"exceeds its bound: {compared}" if bound else f"total variation {gap:.3g} on instance {worst!r}"
    result = LawResult(
        "",
        Status.FAILED,
        failure or is_off,
        How.PROVEN,
        Measured(total_variation=None if failure else gap),
        Remarks((scope_of("exact output distribution", instances.values()),)),
        findings=findings,
    )
    if failure or wrong:
        return result
    if bound is not None:
        return replace(result, status=Status.PASSED, detail=f"within its bound: {compared}")
    missing = never_happened(law.accepted_length_pmf for law in laws.values())
    if missing:
        remarks = replace(result.remarks, do=BY_THE_CALLER if missing == NO_BONUS else "")
        detail = f"on these instances it {missing}"
        return replace(result, status=Status.INCONCLUSIVE, detail=detail, remarks=remarks)
    if after is not None and facts.rule_at is None:
        toys = [law.instance for law in laws.values()]
        found = [(toy, drafting_on(toy, Siblings.INDEPENDENT), after(toy)) for toy in toys]
        names = verifiers.names()
        wanting = [one for one in names if drafting_of(verifiers.get(one)) is Siblings.INDEPENDENT]
        findings = with_rule(findings, found, wanting)
    size = f"at most {gap:.1e}" if facts.tolerance else "exactly 0"
    rounding = " (float32 rounding)" if gap > ROUNDING else ""
    detail = (
        f"total variation {size}{rounding} on {where or f'{len(laws)} toy instances'}, every outcome {how}"
    )
    return replace(result, status=Status.PASSED, detail=detail, findings=findings)


def distance(law: EmissionLaw, facts: Facts) -> float:
    """Return how far a law is from the target's: by the measure of the declared bound, if there is one."""
    return facts.bound.figure(law) if facts.bound else float(law.total_variation)


def is_wrong(law: EmissionLaw, facts: Facts) -> bool:
    """Whether a law is farther from the target's than rounding and the declared bound explain."""
    return distance(law, facts) > facts.tolerance + (facts.bound.most if facts.bound else 0.0)


@lru_cache(maxsize=256)
def accepted_length(rule: str, instance: Instance, drafting: Siblings | Drafting | None) -> tuple[float, ...]:
    """Return P(tau = 0), ..., P(tau = L) of a rule on an instance; subjects of one audit share it."""
    law = emission_law(verifiers.get(rule), instance, drafting=drafting)
    return tuple(map(float, law.accepted_length_pmf))


def declared_length(
    laws: Mapping[str, EmissionLaw],
    facts: Facts,
    tolerance: float,
    draftings: Mapping[str, Drafting] = MappingProxyType({}),
) -> CheckResult | None:
    """Judge whether the accepted length has the law of the declared rule; None if none is declared.

    On the same drafts: those of ``draftings``, by name as ``laws``, or K paths as the rule wants them. None
    also where the rule accepts none of these drafts.
    """
    if facts.rule_at is None or facts.declared_lossy:
        return None
    gaps = {}
    for name, law in laws.items():
        rule, drafting = facts.rule_at(law.instance.draft_length), draftings.get(name)
        if accepts(rule, drafting):
            pairs = zip(law.accepted_length_pmf, accepted_length(rule, law.instance, drafting), strict=True)
            gaps[name, rule] = float(sum(abs(mine - theirs) for mine, theirs in pairs) / 2)
    if not gaps:
        return None
    (name, rule), gap = max(gaps.items(), key=lambda item: item[1])
    if gap > tolerance:
        detail = f"accepted length is not that of {rule!r}: total variation {gap:.3g} on instance {name!r}"
        return failed(detail, how=How.PROVEN)
    return passed(f"the accepted length is distributed as that of {rule!r}, as declared", how=How.PROVEN)


def accepts(rule: str, drafting: Drafting | None) -> bool:
    """Whether a built-in rule is lossless for drafts that are drawn so; None: as the rule wants them."""
    if drafting is None:
        return True
    known, law = verifiers.get(rule), drafting.siblings
    is_paths = isinstance(drafting, ShapedTrees) and drafting.shape.num_paths is not None
    laws = {law, Siblings.PATHS} if is_paths and law is Siblings.INDEPENDENT else {law}
    return bool(laws & accepts_of(known)) and (is_paths or not traits_of(known).paths_only)


def never_happened(lengths: Iterable[Sequence[Number] | Numbers]) -> str:
    """Say what never happened, "" where all did; ``lengths`` are laws or counts [L+1] of accepted lengths."""
    listed = list(lengths)
    if not any(some[-1] > 0 for some in listed):
        return NO_BONUS
    if not any(sum(some[:-1]) > 0 for some in listed):
        return "never rejected a draft"
    return ""


def scope_of(what: str, instances: Collection[Instance]) -> str:
    """Return a line that says on which instances the distribution of one call was found, and how."""
    sizes = {f"V = {i.vocab_size}, L = {i.draft_length}, K = {i.num_paths}": None for i in instances}
    return f"one call: {what} on {len(instances)} toy instances ({'; '.join(sizes)})"


def with_rule(
    findings: Findings, found: Sequence[tuple[Instance, Drafting, LawsAfter]], names: Sequence[str]
) -> Findings:
    """Add the first built-in rule of ``names`` with the same law after every draft, if one has.

    Losslessness does not fix what is emitted after one draft; a rule does. Where code and rule agree after
    many drafts, the rule says what to expect after any other draft. Rules whose calls depend on each other
    are passed over.
    """
    # Most rules differ soon, so that a few drafts come first; no rule is tried after the first that fits.
    parts = [
        ((instance, drafting, tuple(rows)), [after[row] for row in rows])
        for some in (slice(_FEW), slice(_FEW, None))
        for instance, drafting, after in found
        if (rows := [*after][some])
    ]
    bound, tolerance = StatefulVerifier | ModelBound, findings.smallest_detectable_tv or 0.0
    fitting = (
        name
        for name in names
        if not isinstance(verifiers.get(name), bound)
        and all(
            law.distance(of_rule) <= tolerance
            for drafts, laws in parts
            for law, of_rule in zip(laws, _laws_of_rule(name, drafts), strict=True)
        )
    )
    if (rule := next(fitting, None)) is None:
        return findings
    drafts = sum(len(after) for *_, after in found)
    detail = f"emitted tokens have the distribution of rule {rule!r} after each of {drafts} drafts"
    length = CheckResult("", Status.PASSED, detail, how=How.PROVEN)
    return replace(findings, rule=rule, length=length)


@lru_cache(maxsize=256)
def _laws_of_rule(name: str, drafts: tuple[Instance, Drafting, tuple[int, ...]]) -> Sequence[ConditionalLaw]:
    """Return the law of what a rule emits after the drafts of some rows; subjects of one audit share it."""
    instance, drafting, rows = drafts
    table = DraftTable(instance.floats, drafting, NUMPY)
    return conditional_laws(verifiers.get(name), table.drafts(np.array(rows)))
