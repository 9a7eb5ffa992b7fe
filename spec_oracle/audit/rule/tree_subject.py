"""Rules for draft trees: objects with ``verify_tree`` that say which laws of siblings they accept."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

import verifiers
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.declared import FLOAT32_ROUNDING, NOTHING_DECLARED, ROUNDING, Facts, always
from spec_oracle.contracts import ContractError, raising
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact import VerdictError
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.tree_emission import checked_tree_verdict
from verifiers import replayed_decisions
from verifiers.arrays import map_fields
from verifiers.trees import Siblings, TreeDrafts, TreeVerifier

PREFIX: Final = "trees/"
"""What names of built-in tree rules begin with: some rules for paths have the same name."""


def names() -> tuple[str, ...]:
    """Return the names under which the built-in tree rules are audited."""
    return tuple(f"{PREFIX}{name}" for name in verifiers.tree_rule_names())


@dataclass(frozen=True)
class TreeSubject:
    """A rule for draft trees whose siblings have a law that it ``accepts``; ``array`` is its library."""

    name: str
    rule: TreeVerifier
    accepts: frozenset[Siblings]
    facts: Facts = NOTHING_DECLARED
    array: str = "numpy"
    num_paths: ClassVar[int] = 1
    kind: ClassVar[str] = "tree"


def of_tree_rule(name: str, rule: Any, *, array: str = "numpy") -> TreeSubject:
    """Return the subject for a tree rule; raises `InvalidInputError` for wrong ``accepts`` or ``rule``."""
    tolerance = ROUNDING if name in names() else FLOAT32_ROUNDING
    accepts, declared = _accepted(name, rule), getattr(rule, "rule", None)
    facts = Facts(tolerance=tolerance)
    if isinstance(declared, str):  # that of a walk is a function
        facts = replace(facts, rule_at=partial(always, _declared(name, accepts, declared)))
    return TreeSubject(name, rule, accepts, facts, array)


def _declared(name: str, accepts: frozenset[Siblings], declared: str) -> str:
    """Return the full name of the declared rule, which must take some of the siblings."""
    rule, known = declared.removeprefix(PREFIX), verifiers.tree_rule_names()
    if rule not in known:
        raise InvalidInputError(f"rule: {name!r} declares {unknown(rule, known, 'tree rule')}")
    if not accepts & verifiers.tree_rule(rule).accepts:
        laws = ", ".join(sorted(law.value for law in accepts))
        raise InvalidInputError(f"rule: {name!r} declares {rule}, which does not accept its siblings: {laws}")
    return PREFIX + rule


def _accepted(name: str, rule: Any) -> frozenset[Siblings]:
    accepts, known = getattr(rule, "accepts", None), [law.value for law in Siblings]
    if isinstance(accepts, str | bytes) or not isinstance(accepts, Collection) or not accepts:
        found = "no such attribute" if accepts is None else repr(accepts)
        raise InvalidInputError(
            f"accepts: {name!r} has verify_tree, which needs an attribute accepts, the siblings for which "
            f"it is lossless, such as accepts = {{'independent'}}; known are {', '.join(known)}; got {found}"
        )
    values = [law.value if isinstance(law, Siblings) else law for law in accepts]
    if wrong := [value for value in values if value not in known]:
        raise InvalidInputError(f"accepts: {name!r} has {unknown(str(wrong[0]), known, 'kind of siblings')}")
    return frozenset(map(Siblings, values))


def in_library(subject: TreeSubject, drafts: TreeDrafts) -> TreeDrafts:
    """Return numpy draft trees in the array library of a rule."""
    return map_fields(arithmetic(array=subject.array).from_numpy, drafts)


def verdicts(subject: TreeSubject, drafts: TreeDrafts, uniforms: Floats) -> Integers:
    """Return (last accepted place, next token) of every request, int [B, 2], decided by its ``uniforms``.

    Raises `ContractError` where the rule returns no verdict, `SubjectRaisedError` where it raises.
    """
    chosen = arithmetic(array=subject.array)
    try:
        with raising():
            verdict = subject.rule.verify_tree(drafts, replayed_decisions(chosen.from_numpy(uniforms)))
            return np.stack(checked_tree_verdict(verdict, drafts, chosen), axis=1)
    except VerdictError as error:
        raise ContractError(str(error)) from None
