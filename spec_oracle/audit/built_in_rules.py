"""What built-in rules say of a subject: how much the declared one accepts, and which one emits the same."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

import verifiers
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.results import CheckResult, Findings, How, failed, passed
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.drafting import Drafting, ShapedTrees
from spec_oracle.toy import Instance
from verifiers import ModelBound, Siblings, StatefulVerifier, accepts_of, traits_of

LawsAfter: TypeAlias = Mapping[int, ConditionalLaw]
"""The law of what is emitted after drafts of an instance, by their rows in its `DraftTable`."""

_FEW = 8


def accepts(rule: str, drafting: Drafting | None) -> bool:
    """Whether a built-in rule is lossless for drafts that are drawn so; None: as the rule wants them."""
    if drafting is None:
        return True
    known, law = verifiers.get(rule), drafting.siblings
    is_paths = isinstance(drafting, ShapedTrees) and drafting.shape.num_paths is not None
    laws = {law, Siblings.PATHS} if is_paths and law is Siblings.INDEPENDENT else {law}
    return bool(laws & accepts_of(known)) and (is_paths or not traits_of(known).paths_only)


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
    return replace(findings, rule=rule, length=passed(detail, how=How.PROVEN))


@lru_cache(maxsize=256)
def _laws_of_rule(name: str, drafts: tuple[Instance, Drafting, tuple[int, ...]]) -> Sequence[ConditionalLaw]:
    """Return the law of what a rule emits after the drafts of some rows; subjects of one audit share it."""
    instance, drafting, rows = drafts
    table = DraftTable(instance.floats, drafting, NUMPY)
    return conditional_laws(verifiers.get(name), table.drafts(np.array(rows)))
