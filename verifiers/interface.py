"""What a verifier is given, what it returns, and where its random decisions come from.

A verifier is a pure function of its drafts and of the answers of a `DecisionSource`. That is what lets the
same code be sampled in production, enumerated on toy models, and replayed from a script.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from verifiers.arrays import Array, arange_like, filled, namespace, pick
from verifiers.errors import InvalidInputError


class Drafting(Enum):
    """The law by which K draft paths are drawn from q; a verifier is lossless under the one it declares."""

    INDEPENDENT = "independent"
    """K paths, independent and identically distributed."""

    DISTINCT = "distinct"
    """At every node the paths passing there, in their order, draw children without replacement from q;
    when every token with q > 0 has been drawn there, the round starts anew."""

    TOP_AND_SAMPLED = "top-and-sampled"
    """At a node with m paths the first m - 1 take the most likely children (ties: smaller token first), the
    last draws from q without those, or from q itself when nothing is left (`parts.top_draft_law`)."""


@dataclass(frozen=True)
class Traits:
    """What a rule can do; a rule declares one as its attribute ``traits``.

    Raises `InvalidInputError` for a ``drafting`` that is none.
    """

    drafting: Drafting = Drafting.INDEPENDENT
    """How its draft paths must be drawn."""

    single_path: bool = False
    """All paths but the first are ignored."""

    largest_vocab_size: int | None = None
    """The most tokens it is made for; None: any number."""

    walks: bool = False
    """It is `parts.walk` with a one-step rule: to find its law, each node of the draft tree is run once."""

    any_order: bool = False
    """What is emitted has the same law after the paths in any order: one of the orders is run."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "drafting", Drafting(self.drafting))
        except ValueError:
            known = ", ".join(member.value for member in Drafting)
            raise InvalidInputError(f"drafting: unknown {self.drafting!r}; known ones are {known}") from None


@dataclass(frozen=True)
class Drafts:
    """Draft paths and both models' probabilities along them, for B independent requests.

    ``tokens`` int [B, K, L]; ``draft_probs`` [B, K, L, V], q(. | context of that position on that path);
    ``target_probs`` [B, K, L+1, V]. Rows are probability mass and sum to one. Paths that share a prefix have
    equal rows there. Raises `InvalidInputError` when the shapes disagree.
    """

    tokens: Array
    draft_probs: Array
    target_probs: Array

    def __post_init__(self) -> None:
        if len(self.tokens.shape) != 3:
            raise InvalidInputError(f"tokens: expected shape [B, K, L], got {tuple(self.tokens.shape)}")
        if len(self.draft_probs.shape) != 4:
            raise InvalidInputError(
                f"draft_probs: expected shape [B, K, L, V], got {tuple(self.draft_probs.shape)}"
            )
        batch, paths, length = self.tokens.shape
        vocab = self.draft_probs.shape[-1]
        if tuple(self.draft_probs.shape) != (batch, paths, length, vocab):
            raise InvalidInputError(
                f"draft_probs: expected shape {(batch, paths, length, vocab)} to match tokens, "
                f"got {tuple(self.draft_probs.shape)}"
            )
        if tuple(self.target_probs.shape) != (batch, paths, length + 1, vocab):
            raise InvalidInputError(
                f"target_probs: expected shape {(batch, paths, length + 1, vocab)} to match tokens, "
                f"got {tuple(self.target_probs.shape)}"
            )

    @property
    def batch(self) -> int:
        """Number of requests, B."""
        return int(self.tokens.shape[0])

    @property
    def num_paths(self) -> int:
        """Number of draft paths, K."""
        return int(self.tokens.shape[1])

    @property
    def draft_length(self) -> int:
        """Tokens per draft path, L."""
        return int(self.tokens.shape[2])

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.draft_probs.shape[3])


@dataclass(frozen=True)
class Verdict:
    """What one verification step emits, for B requests.

    ``num_accepted`` int [B], the accepted length tau in 0..L; ``path`` int [B], the path whose prefix was
    accepted; ``next_token`` int [B], the correction or bonus token; ``draft_tokens`` int [B, K, L], the
    drafts that were verified.
    """

    num_accepted: Array
    path: Array
    next_token: Array
    draft_tokens: Array

    @property
    def emitted(self) -> Array:
        """Emitted tokens, int [B, L+1]: the accepted prefix, then ``next_token``, padded with -1."""
        xp = namespace(self.next_token)
        accepted = pick(self.draft_tokens, self.path)
        padded = xp.concat([accepted, filled(accepted[:, :1], -1)], axis=1)
        position = arange_like(padded, padded.shape[1])[None, :]
        tau = self.num_accepted[:, None]
        tail = xp.where(position == tau, self.next_token[:, None], filled(padded, -1))
        return xp.where(position < tau, padded, tail)


class DecisionSource(Protocol):
    """The only randomness a verifier may use. Each call is one fresh decision per element (or row)."""

    def bernoulli(self, probability: Array) -> Array:
        """Return bool, same shape: True with the given probability; values outside [0, 1] are clipped."""
        ...

    def categorical(self, weights: Array) -> Array:
        """Return int, last axis reduced: index i with probability weights[i] / sum(weights)."""
        ...


State = tuple[Array, ...]
"""What a stateful verifier passes to its next call: arrays whose first axis is the request; () is fresh."""


@runtime_checkable
class Verifier(Protocol):
    """A verification rule. It may also declare its `Traits`, as the attribute ``traits``."""

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify a batch of drafts, taking every random decision from ``decisions``."""
        ...


@runtime_checkable
class StatefulVerifier(Protocol):
    """A rule that owes part of the target to later calls: lossless over the text, not call by call."""

    def initial_state(self, batch: int) -> State:
        """Return the state of ``batch`` fresh requests."""
        ...

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify a batch, given the state of the last call; return the state of the next one."""
        ...


@runtime_checkable
class ModelBound(Protocol):
    """A rule for toy models only: it needs both models as a whole, not just their rows along the drafts."""

    def bound_to(
        self, target: Callable[[tuple[int, ...]], Array], draft: Callable[[tuple[int, ...]], Array]
    ) -> StatefulVerifier:
        """Return the rule for these models, each given as the row [V] after any context."""
        ...


AnyVerifier: TypeAlias = Verifier | StatefulVerifier


def traits_of(verifier: object) -> Traits:
    """Return the traits that ``verifier`` declares: as ``traits``, else as attributes of their names.

    Raises `InvalidInputError` for a ``drafting`` that is none.
    """
    declared = getattr(verifier, "traits", None)
    if isinstance(declared, Traits):
        return declared
    names = (field.name for field in fields(Traits))
    return Traits(**{name: getattr(verifier, name) for name in names if hasattr(verifier, name)})


def drafting_of(verifier: object) -> Drafting:
    """Return how the draft paths of ``verifier`` must be drawn; errors as `traits_of`."""
    return traits_of(verifier).drafting
