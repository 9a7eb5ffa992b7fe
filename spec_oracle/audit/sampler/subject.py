"""Samplers: code of the sampler contract, whatever hands it its random numbers."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, TypeAlias

from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.draftings import DEPTH, draftings, sampled_trees
from spec_oracle.audit.draws import PLAIN_BATCHES, plain_verification
from spec_oracle.audit.instances import panel
from spec_oracle.contracts import SamplerCode, SamplerFunction, drawing_uniforms
from spec_oracle.contracts.sampler import KeyedSampler, RacedSampler
from spec_oracle.places import defined_at
from spec_oracle.statistics.streams import stream
from verifiers import Siblings

_FORM = (
    "it is called as verify(draft_tokens [B, L], draft_probs [B, L, V], target_probs [B, L+1, V], "
    "generator), with an axis K after B if there are several paths"
)
_FORM_OF_TREES = (
    "it is called as verify_tree(tokens [B, N], parents [B, N], draft_probs [B, N+1, V], "
    "target_probs [B, N+1, V], generator)"
)

Randomness: TypeAlias = SamplerCode | RacedSampler | KeyedSampler
"""Takes its random numbers as arguments: code, uniforms [B, L+1] as its fourth one; engines, their noise."""


@dataclass(frozen=True)
class SamplerSubject:
    """A sampler; ``code`` draws its random numbers itself, ``randomness`` takes them as arguments.

    ``on_trees`` are the laws of siblings under which a tree sampler is to be lossless, none for other ones.
    ``traceable`` says whether its random numbers can be traced; ``ran`` are the lines of users' files that
    recorded calls ran, by file.
    """

    name: str
    code: SamplerCode
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    traceable: bool = True
    randomness: Randomness | None = None
    on_trees: frozenset[Siblings] = frozenset()
    ran: defaultdict[str, set[int]] = field(
        default_factory=partial(defaultdict, set), repr=False, compare=False
    )
    drafting: ClassVar[Siblings] = Siblings.INDEPENDENT
    kind: ClassVar[str] = "sampler"
    carries_state: ClassVar[bool] = False
    drafts: ClassVar[None] = None
    is_rerunnable: ClassVar[bool] = True

    @property
    def call_form(self) -> str:
        """How it is called."""
        return _FORM_OF_TREES if self.on_trees else _FORM

    @property
    def place(self) -> str:
        """Where the function is defined."""
        return defined_at(self.code.function)

    def plain_call(self, seed: int) -> None:
        """Verify one batch and one request, and draft trees if it takes these."""
        plain_verification(self.code, self.drafting, self.num_paths, seed)
        for drafting in [*draftings(self.on_trees, DEPTH).values()][:1]:
            toy, rng = panel(3, DEPTH, 1, seed)["flat"], stream(seed, "first-call")
            generator = self.code.generator(seed)
            for batch in PLAIN_BATCHES:
                self.code(sampled_trees(toy, drafting, batch, rng), generator)

    @classmethod
    def of_uniforms(
        cls, name: str, function: SamplerFunction, facts: Facts = NOTHING_DECLARED, array: str = "numpy"
    ) -> "SamplerSubject":
        """Return the subject for a function whose fourth argument are uniforms; it is handed one path."""
        code = SamplerCode(drawing_uniforms(function), array)
        return cls(name, code, facts, randomness=SamplerCode(function, array))

    @classmethod
    def of_trees(
        cls, name: str, function: SamplerFunction, accepts: frozenset[Siblings], array: str = "numpy"
    ) -> "SamplerSubject":
        """Return the subject for a tree sampler that is to be lossless under these laws of siblings.

        Where one path is enough, it is handed a chain.
        """
        return cls(name, SamplerCode(function, array, is_of_trees=True), on_trees=accepts)

    @classmethod
    def of_keys(cls, name: str, engine: KeyedSampler, facts: Facts = NOTHING_DECLARED) -> "SamplerSubject":
        """Return the subject for an engine on torch tensors with keyed noise; called with fresh seeds."""
        return cls(name, SamplerCode(engine, "torch"), facts, traceable=False, randomness=engine)
