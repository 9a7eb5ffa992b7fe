"""Exact laws against the target's, and against those of rules: which rule it is, and how much it accepts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

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
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.toy import Instance
from verifiers import ModelBound, Siblings, StatefulVerifier, accepts_of, drafting_of

LawsAfter: TypeAlias = Mapping[int, ConditionalLaw]
"""The law of what is emitted after each possible draft of an instance, by its row in the `draft_table`."""

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
    drafting: Siblings | None = None,
    after: Callable[[Instance], LawsAfter] | None = None,
) -> LawResult:
    """Say whether the exact laws on ``instances`` are the target's, or as near to it as a bound declares.

    ``failure`` says why there is no law on the next instance, where the code broke its contract; ``how``
    completes "every outcome was ...", ``where`` says on what, if not on the instances. ``drafting``: how the
    paths were drafted, if not as the declared rule wants them. ``after`` returns the laws after each draft of
    an instance, for code that declares no rule: if it is lossless, it may be found to be one.
    """
    gaps = {name: float(law.total_variation) for name, law in laws.items()}
    gap, bound = max(gaps.values(), default=0.0), facts.bound
    most = facts.tolerance + (bound.most if bound else 0.0)
    figures = {name: bound.figure(law) for name, law in laws.items()} if bound else gaps
    worst = max(figures, key=lambda name: figures[name], default="")
    is_wrong = figures.get(worst, 0.0) > most
    compared = bound.compared(figures[worst], worst) if bound and worst else ""
    findings = Findings(
        laws,
        instances,
        worst if is_wrong else None,
        total_variation=gap,
        smallest_detectable_tv=facts.tolerance,
        elsewhere=Elsewhere(law_of, (lambda law: bound.figure(law) > most) if bound else None),
        length=declared_length(laws, facts, facts.tolerance, drafting),
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
    if failure or findings.worst is not None:
        return result
    if bound is not None:
        return replace(result, status=Status.PASSED, detail=f"within its bound: {compared}")
    if after is not None and facts.rule_at is None:
        findings = _with_rule(findings, [(law.instance, after(law.instance)) for law in laws.values()])
    missing = never_happened(law.accepted_length_pmf for law in laws.values())
    if missing:
        return replace(result, status=Status.INCONCLUSIVE, detail=f"on these instances it {missing}")
    size = f"at most {gap:.1e}" if facts.tolerance else "exactly 0"
    rounding = " (float32 rounding)" if gap > ROUNDING else ""
    detail = (
        f"total variation {size}{rounding} on {where or f'{len(laws)} toy instances'}, every outcome {how}"
    )
    return replace(result, status=Status.PASSED, detail=detail, findings=findings)


def declared_length(
    laws: Mapping[str, EmissionLaw], facts: Facts, tolerance: float, drafting: Siblings | None = None
) -> CheckResult | None:
    """Judge whether the accepted length has the law of the declared rule; None where none is declared.

    On the same paths: those of ``drafting``, or as the rule wants them. None also where the rule does not
    accept such paths.
    """
    if facts.rule_at is None or facts.declared_lossy or not laws:
        return None
    gaps = {}
    for name, law in laws.items():
        rule = facts.rule_at(law.instance.draft_length)
        if not accepts_paths(rule, drafting):
            return None
        same = emission_law(verifiers.get(rule), law.instance, drafting=drafting)
        pairs = zip(law.accepted_length_pmf, same.accepted_length_pmf, strict=True)
        gaps[name, rule] = float(sum(abs(mine - theirs) for mine, theirs in pairs) / 2)
    (name, rule), gap = max(gaps.items(), key=lambda item: item[1])
    if gap > tolerance:
        detail = f"accepted length is not that of {rule!r}: total variation {gap:.3g} on instance {name!r}"
        return failed(detail, how=How.PROVEN)
    return passed(f"the accepted length is distributed as that of {rule!r}, as declared", how=How.PROVEN)


def accepts_paths(rule: str, drafting: Siblings | None) -> bool:
    """Whether a built-in rule is lossless for K paths that are drawn so; None: as it wants them."""
    accepted = accepts_of(verifiers.get(rule))
    is_independent = drafting is Siblings.INDEPENDENT and Siblings.PATHS in accepted
    return drafting is None or drafting in accepted or is_independent


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


def _with_rule(findings: Findings, laws: Sequence[tuple[Instance, LawsAfter]]) -> Findings:
    """Add which built-in rule has the same law after every draft, if one does."""
    rule = identified(laws, Siblings.INDEPENDENT, findings.smallest_detectable_tv or 0.0)
    if rule is None:
        return findings
    drafts = sum(len(by_row) for _, by_row in laws)
    detail = f"emitted tokens have the distribution of rule {rule!r} after each of {drafts} drafts"
    length = CheckResult("", Status.PASSED, detail, how=How.PROVEN)
    return replace(findings, rule=rule, length=length)


def identified(
    laws: Sequence[tuple[Instance, LawsAfter]], drafting: Siblings, tolerance: float
) -> str | None:
    """Return the first rule with the same law after every draft, None where there is none.

    Losslessness does not fix what is emitted after one draft; a rule does. Where code and rule agree after
    every draft of the instances, the rule says what to expect after any other draft. Rules are the built-in
    verifiers that want drafts drawn so, and whose calls do not depend on each other.
    """
    candidates = [name for name in verifiers.names() if drafting_of(verifiers.get(name)) is drafting]
    bound = StatefulVerifier | ModelBound
    # Most rules differ soon, so that a few drafts come first; no rule is tried after the first that fits.
    parts = [
        (instance, found, [*found][some])
        for instance, found in laws
        for some in (slice(_FEW), slice(_FEW, None))
    ]
    fitting = (
        name
        for name in candidates
        if not isinstance(verifiers.get(name), bound) and all(_fits(name, *part, tolerance) for part in parts)
    )
    return next(fitting, None)


def _fits(name: str, instance: Instance, found: LawsAfter, rows: list[int], tolerance: float) -> bool:
    """Whether a rule has the laws that were found after the drafts of some rows."""
    expected = _laws_of_rule(name, instance, tuple(rows))
    return all(found[row].distance(law) <= tolerance for row, law in zip(rows, expected, strict=True))


@lru_cache(maxsize=256)
def _laws_of_rule(name: str, instance: Instance, rows: tuple[int, ...]) -> Sequence[ConditionalLaw]:
    """Return the law of what a rule emits after the drafts of some rows; subjects of one audit share it."""
    if not rows:
        return ()
    drafts = draft_table(instance, drafting_of(verifiers.get(name))).drafts(np.array(rows))
    return conditional_laws(verifiers.get(name), drafts)
