"""Rules: objects that take every random decision from a source, so that they can be enumerated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.draftings import DEPTH, PATHS, ToyDrafts, drafting_called, one_of_each, sampled_trees
from spec_oracle.audit.draws import PLAIN_BATCHES, plain_verification
from spec_oracle.audit.instances import panel
from spec_oracle.audit.rule.replay import UNIFORMS, verdicts
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.exact.call import drafting_on
from spec_oracle.exact.drafting import Drafting
from spec_oracle.places import defined_at
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance
from verifiers import (
    AnyVerifier,
    ModelBound,
    Siblings,
    StatefulVerifier,
    accepts_of,
    drafting_of,
    traits_of,
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
        of_paths = (
            ": drafts.paths has the arrays of its K paths, and "
            "Verdict.on_paths(drafts, path, num_accepted, next_token) makes its verdict"
        )
        return f"it is called as verify(drafts, decisions){of_paths * (not self.on_trees)}"

    @property
    def carries_state(self) -> bool:
        """Whether a call hands a state to the next one."""
        return isinstance(self.rule, StatefulVerifier)

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

    def drafts_of(self, kind: str, instance: Instance) -> Drafting:
        """Return how a kind of drafts of an instance is drawn; errors as of `drafting_called`."""
        return self.paths(instance) if kind == PATHS else drafting_called(kind, self.on_trees, instance)

    def one_of_each(self, instance: Instance) -> Mapping[str, Drafting]:
        """Return how an instance is drafted, by kind: its K paths, and one kind of trees for every law."""
        trees = one_of_each(self.on_trees, min(instance.draft_length, DEPTH))
        return {PATHS: self.paths(instance), **trees}

    def in_type(self, name: str, dtype: str, seed: int) -> Iterator[ToyDrafts]:
        """Yield one toy instance with rows of a number type: its K paths, one kind of trees for every law."""
        toy = panel(3, DEPTH, self.num_paths, seed)[name]
        for kind, drafting in self.one_of_each(toy).items():
            yield ToyDrafts(name, name, kind, toy, drafting, dtype)

    def plain_call(self, seed: int) -> None:
        """Verify one batch and one request; raises `InvalidInputError` for a rule that carries a state."""
        plain_verification(self.code, self.drafting, self.num_paths, seed)
        toy = panel(3, DEPTH, self.num_paths, seed)["flat"]
        for drafting in [*self.one_of_each(toy).values()][:2]:
            rng = stream(seed, "first-call")
            for batch in PLAIN_BATCHES:
                drafts = sampled_trees(toy, drafting, batch, rng)
                verdicts(self.rule, self.array, drafts, rng.random((batch, UNIFORMS)))

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
