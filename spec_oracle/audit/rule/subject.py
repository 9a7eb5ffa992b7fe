"""Rules: objects that take every random decision from a source, so that they can be enumerated.

A rule for draft paths has ``verify``; one for draft trees ``verify_tree``, and says which laws of siblings it
accepts.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import numpy as np

import verifiers
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.context import stream
from spec_oracle.audit.declared import FLOAT32_ROUNDING, NOTHING_DECLARED, ROUNDING, Facts, always
from spec_oracle.audit.draws import plain_verification
from spec_oracle.audit.instances import panel
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, draftings
from spec_oracle.contracts import ContractError, SamplerCode, as_sampler, raising
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact import VerdictError
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.tree_emission import checked_tree_verdict
from spec_oracle.places import defined_at
from verifiers import AnyVerifier, Drafting, ModelBound, StatefulVerifier, drafting_of, replayed_decisions
from verifiers.arrays import map_fields
from verifiers.trees import Siblings, TreeDrafts, TreeVerifier


@dataclass(frozen=True)
class VerifierSubject:
    """A verifier; ``array`` is the library in which it is also called as a sampler."""

    name: str
    verifier: AnyVerifier
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    array: str = "numpy"
    kind: ClassVar[str] = "verifier"
    is_rerunnable: ClassVar[bool] = True
    call_form: ClassVar[str] = "it is called as verify(drafts, decisions)"

    @property
    def place(self) -> str:
        """Where the rule is defined."""
        return defined_at(self.verifier.verify)

    @property
    def carries_state(self) -> bool:
        """Whether a call hands a state to the next one."""
        return isinstance(self.verifier, StatefulVerifier)

    @property
    def path_rule_at(self) -> Callable[[int], str] | None:
        """The declared rule, by draft length."""
        return self.facts.rule_at

    def plain_call(self, seed: int) -> None:
        """Verify one batch and one request; raises `InvalidInputError` for a rule that carries a state."""
        plain_verification(self.code, self.drafting, self.num_paths, seed)

    @property
    def drafting(self) -> Drafting:
        """The law by which it wants its paths drawn."""
        return drafting_of(self.verifier)

    @cached_property
    def code(self) -> SamplerCode:
        """The verifier as a sampler; raises `InvalidInputError` for one that carries a state."""
        return SamplerCode(as_sampler(self.verifier), self.array)

    @property
    def never_batched(self) -> str:
        """Why it is asked nothing of batches and memory, "" where it is."""
        is_bound = isinstance(self.verifier, ModelBound)
        return "a rule for toy models, never batched in service" if is_bound else ""

    @property
    def never_called_alone(self) -> str:
        """Why it is asked nothing that one call under the sampler contract would answer, "" where it is."""
        if isinstance(self.verifier, StatefulVerifier):
            return "it carries tokens over to later calls: this check is for rules that see one call only"
        return self.never_batched


_BATCHES: Final = (8, 1)
"""Trees of plain calls."""

TREE_UNIFORMS = 1024
"""Uniforms of a request: more than any takes."""

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
    carries_state: ClassVar[bool] = False
    is_rerunnable: ClassVar[bool] = True
    path_rule_at: ClassVar[None] = None
    call_form: ClassVar[str] = "it is called as verify_tree(drafts, decisions)"

    @property
    def place(self) -> str:
        """Where the rule is defined."""
        return defined_at(self.rule.verify_tree)

    def plain_call(self, seed: int) -> None:
        """Verify one batch of draft trees and one tree."""
        toy, rng = panel(3, DEPTH, 1, seed)["flat"], stream(seed, "first-call")
        table = SampledTrees(toy, next(iter(draftings(self.accepts, DEPTH).values())), self.array)
        for batch in _BATCHES:
            tree_verdicts(self, table.drafts(table.sample(batch, rng)), rng.random((batch, TREE_UNIFORMS)))


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


def tree_verdicts(subject: TreeSubject, drafts: TreeDrafts, uniforms: Floats) -> Integers:
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
