"""Rules: objects that take every random decision from a source, so that they can be enumerated."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import ClassVar, Final

import numpy as np

import verifiers
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.declared import FLOAT32_ROUNDING, NOTHING_DECLARED, ROUNDING, Facts, always
from spec_oracle.audit.draftings import DEPTH, PATHS, draftings, one_of_each, sampled_trees
from spec_oracle.audit.draws import PLAIN_BATCHES, plain_verification
from spec_oracle.audit.instances import panel
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError, as_sampler, raising
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact import VerdictError
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import (
    call_verifier,
    checked_next_token,
    checked_node,
    converted,
    drafting_on,
    fresh_state,
)
from spec_oracle.exact.drafting import Drafting
from spec_oracle.places import defined_at, raised_at
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance
from verifiers import (
    AnyVerifier,
    Drafts,
    ModelBound,
    Siblings,
    StatefulVerifier,
    accepts_of,
    drafting_of,
    replayed_decisions,
    traits_of,
)

DEFAULT_PATHS: Final = 2
"""Draft paths of rules for several."""

UNIFORMS: Final = 1024
"""Uniforms of a request: more than any takes."""

_OF_PATHS: Final = (
    ": drafts.paths has the arrays of its K paths, and "
    "Verdict.on_paths(drafts, path, num_accepted, next_token) makes its verdict"
)


@dataclass(frozen=True)
class RuleSubject:
    """A rule; ``num_paths`` K of the paths on which it is run, ``array`` its library."""

    name: str
    rule: AnyVerifier
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    array: str = "numpy"
    kind: ClassVar[str] = "rule"
    is_rerunnable: ClassVar[bool] = True
    drafts: ClassVar[None] = None

    @property
    def place(self) -> str:
        """Where the rule is defined."""
        return defined_at(self.rule.verify)

    @property
    def call_form(self) -> str:
        """How it is called, and where a rule for paths finds its arrays."""
        return f"it is called as verify(drafts, decisions){_OF_PATHS if not self.on_trees else ''}"

    @property
    def carries_state(self) -> bool:
        """Whether a call hands a state to the next one."""
        return isinstance(self.rule, StatefulVerifier)

    path_rule_at = property(attrgetter("facts.rule_at"), doc="The declared rule, by draft length.")

    @property
    def drafting(self) -> Siblings:
        """The law by which it wants its paths drawn; of a beam there is one, which has law q."""
        law = drafting_of(self.rule)
        return Siblings.INDEPENDENT if law is Siblings.BEAM else law

    @property
    def on_trees(self) -> frozenset[Siblings]:
        """The laws of siblings for which it is audited on trees of other shapes than K paths, if on any."""
        return frozenset() if traits_of(self.rule).paths_only else accepts_of(self.rule)

    def paths(self, instance: Instance) -> Drafting:
        """Return how the K paths of an instance are drafted for it: one, if it ignores all others."""
        law, traits = drafting_of(self.rule), traits_of(self.rule)
        is_one = traits.single_path or law is Siblings.BEAM
        return drafting_on(instance.with_paths(1) if is_one else instance, self.drafting)

    def one_of_each(self, instance: Instance) -> Mapping[str, Drafting]:
        """Return how an instance is drafted, by kind: its K paths, and one kind of trees for every law."""
        trees = one_of_each(self.on_trees, min(instance.draft_length, DEPTH))
        return {PATHS: self.paths(instance), **trees}

    def plain_call(self, seed: int) -> None:
        """Verify one batch and one request; raises `InvalidInputError` for a rule that carries a state."""
        plain_verification(self.code, self.drafting, self.num_paths, seed)
        toy = panel(3, DEPTH, self.num_paths, seed)["flat"]
        for drafting in [self.paths(toy), *draftings(self.on_trees, DEPTH).values()][:2]:
            rng = stream(seed, "first-call")
            for batch in PLAIN_BATCHES:
                verdicts(self, sampled_trees(toy, drafting, batch, rng), rng.random((batch, UNIFORMS)))

    @cached_property
    def code(self) -> SamplerCode:
        """The rule as a sampler; raises `InvalidInputError` for one that carries a state."""
        return SamplerCode(as_sampler(self.rule), self.array)

    @property
    def never_batched(self) -> str:
        """Why it is asked nothing of batches and memory, "" where it is."""
        is_bound = isinstance(self.rule, ModelBound)
        return "a rule for toy models, never batched in service" if is_bound else ""

    @property
    def never_called_alone(self) -> str:
        """Why it is asked nothing that one call under the sampler contract would answer, "" where it is."""
        if self.carries_state:
            return "it carries tokens over to later calls: this check is for rules that see one call only"
        return self.never_batched


def of_rule(
    name: str, rule: AnyVerifier, *, array: str = "numpy", num_paths: int | None = None
) -> RuleSubject:
    """Return the subject for a rule; only our own are known to compute in float64 throughout.

    Raises `InvalidInputError` for wrong ``accepts``, ``traits`` or ``rule``.
    """
    accepted, is_ours = accepts_of(rule), name in verifiers.names()
    one_path = traits_of(rule).single_path or drafting_of(rule) is Siblings.BEAM
    paths = 1 if one_path else num_paths or DEFAULT_PATHS
    facts = Facts(tolerance=ROUNDING if is_ours else FLOAT32_ROUNDING)
    declared = getattr(rule, "rule", None)
    if isinstance(declared, str):  # that of a walk is a function
        facts = Facts(tolerance=facts.tolerance, rule_at=partial(always, _declared(name, accepted, declared)))
    return RuleSubject(name, rule, facts, paths, array)


def _declared(name: str, accepts: frozenset[Siblings], declared: str) -> str:
    """Return the declared rule, which must take some of the siblings."""
    known = verifiers.names()
    if declared not in known:
        raise InvalidInputError(f"rule: {name!r} declares {unknown(declared, known, 'rule')}")
    if not accepts & accepts_of(verifiers.get(declared)):
        laws = ", ".join(sorted(law.value for law in accepts))
        raise InvalidInputError(
            f"rule: {name!r} declares {declared}, which does not accept its siblings: {laws}"
        )
    return declared


def verdicts(subject: RuleSubject, drafts: Drafts, uniforms: Floats) -> Integers:
    """Return (last accepted place, next token) of every request, int [B, 2], decided by its ``uniforms``.

    ``drafts`` are of numpy. Raises `ContractError` where the rule returns no verdict, `SubjectRaisedError`
    where it raises.
    """
    return verdicts_on(subject, converted(drafts, arithmetic(array=subject.array)), uniforms)


def verdicts_on(subject: RuleSubject, drafts: Drafts, uniforms: Floats) -> Integers:
    """Return the same for drafts in the library of the rule."""
    chosen = arithmetic(array=subject.array)
    try:
        with raising():
            state = fresh_state(subject.rule, drafts.batch)
            decisions = replayed_decisions(chosen.from_numpy(uniforms))
            verdict, _ = call_verifier(subject.rule, drafts, decisions, state)
            node = checked_node(verdict, drafts, chosen)
            return np.stack([node, checked_next_token(verdict, drafts, chosen)], axis=1)
    except ContractError as error:
        place = raised_at(error)
        raise ContractError(f"{error}{f' (at {place})' * bool(place)}") from None
    except VerdictError as error:
        if error.__cause__ is not None:  # what the rule raised
            raise SubjectRaisedError(str(error)) from error.__cause__
        raise ContractError(str(error)) from None
