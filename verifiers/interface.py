"""What a verifier is given, what it returns, and where its random decisions come from.

A verifier is a pure function of its drafts and of the answers of a `DecisionSource`. That is what lets the
same code be sampled in production, enumerated on toy models, and replayed from a script.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Protocol, TypeAlias, runtime_checkable

from verifiers.arrays import Array, arange_like, filled, namespace
from verifiers.drafts import EMPTY, Children, Drafts, Path, Siblings
from verifiers.errors import InvalidInputError, unknown
from verifiers.rows import ROOT, Paths, Rows

__all__ = [
    "EMPTY",
    "ROOT",
    "AnyVerifier",
    "Children",
    "DecisionSource",
    "Drafts",
    "ModelBound",
    "Path",
    "Paths",
    "Rows",
    "Siblings",
    "State",
    "StatefulVerifier",
    "Traits",
    "Verdict",
    "Verifier",
    "accepts_of",
    "drafting_of",
    "siblings_named",
    "traits_of",
]


@dataclass(frozen=True)
class Traits:
    """What the exact machinery needs to know of a rule; a rule declares one as its attribute ``traits``.

    Raises `InvalidInputError` for a ``drafting`` that is no law of siblings.
    """

    drafting: Siblings | None = None
    """How its K paths are drawn where nothing else is said; None: the first in `Siblings` that it accepts."""

    single_path: bool = False
    """All paths but the first are ignored."""

    paths_only: bool = False
    """It reads the arrays `Drafts.paths`, so it takes K paths of one length, and no other tree."""

    largest_vocab_size: int | None = None
    """The most tokens it is made for; None: any number."""

    walks: bool = False
    """It is `parts.walk` with a one-step rule: to find its law, each node of the draft tree is run once."""

    any_order: bool = False
    """What is emitted has the same law after the paths in any order: one of the orders is run."""

    def __post_init__(self) -> None:
        if self.drafting is not None:
            object.__setattr__(self, "drafting", siblings_named(self.drafting, "drafting"))


def siblings_named(law: object, argument: str) -> Siblings:
    """Return the law of siblings of a name, or the law itself; raises `InvalidInputError` for another."""
    try:
        return Siblings(law)
    except ValueError:
        known = [member.value for member in Siblings]
        raise InvalidInputError(f"{argument}: {unknown(str(law), known, 'law of siblings')}") from None


@dataclass(frozen=True)
class Verdict:
    """What one verification step emits, for B requests.

    ``node`` int [B]: the last accepted place, `ROOT` where none was; ``next_token`` int [B]: the correction
    or bonus token; ``drafts``: what was verified.
    """

    node: Array
    next_token: Array
    drafts: Drafts

    @classmethod
    def on_paths(cls, drafts: Drafts, path: Array, num_accepted: Array, next_token: Array) -> "Verdict":
        """Return the verdict that accepts the first ``num_accepted`` int [B] tokens of ``path`` int [B].

        ``drafts`` are K paths of one length (`Drafts.paths`).
        """
        last = (num_accepted - 1) * drafts.num_paths + path
        return cls(namespace(path).where(num_accepted > 0, last, ROOT), next_token, drafts)

    @property
    def num_accepted(self) -> Array:
        """The accepted length tau, int [B]."""
        if self.drafts.num_paths is not None:
            return self.node // self.drafts.num_paths + 1
        return self.drafts.path_to(self.node).lengths

    @property
    def emitted(self) -> Array:
        """Emitted tokens, int [B, L+1]: those from the root to ``node``, ``next_token``, then -1.

        L is the `Drafts.depth`.
        """
        xp, length = namespace(self.next_token), self.drafts.depth
        path = self.drafts.path_to(self.node)
        tau = path.lengths
        padded = xp.concat([path.tokens[:, :length], filled(path.tokens[:, :1], -1)], axis=1)
        position = arange_like(padded, length + 1)[None, :]
        tail = xp.where(position == tau[:, None], self.next_token[:, None], filled(padded, -1))
        return xp.where(position < tau[:, None], padded, tail)


class DecisionSource(Protocol):
    """The only randomness a verifier may use. Each call is one fresh decision per element (or row).

    A source that runs all outcomes of a rule may have a method ``step_once``, which keeps what the steps of a
    walk returned (`verifiers.parts.walk.walk`).
    """

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
    """A verification rule, for draft trees.

    It says as its attribute ``accepts`` under which laws of `Siblings` it is lossless, and may declare its
    `Traits`, as the attribute ``traits``. One that says nothing takes independent paths of one length.
    """

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

    A rule that does not say what it ``accepts`` takes paths only. Raises `InvalidInputError` for a
    ``drafting`` that is no law of siblings.
    """
    declared = getattr(verifier, "traits", None)
    if not isinstance(declared, Traits):
        names = (field.name for field in fields(Traits))
        declared = Traits(**{name: getattr(verifier, name) for name in names if hasattr(verifier, name)})
    return declared if hasattr(verifier, "accepts") else replace(declared, paths_only=True)


def accepts_of(verifier: object) -> frozenset[Siblings]:
    """Return the laws of siblings under which ``verifier`` is lossless.

    Laws may be given by their names. Raises `InvalidInputError` for what is no collection of laws.
    """
    accepts = getattr(verifier, "accepts", None)
    if accepts is None:
        return frozenset({traits_of(verifier).drafting or Siblings.PATHS})
    if isinstance(accepts, str | bytes) or not isinstance(accepts, Collection) or not accepts:
        known = ", ".join(law.value for law in Siblings)
        raise InvalidInputError(
            f"accepts: expected a set of laws of siblings, such as {{'independent'}}; known are {known}; "
            f"got {accepts!r}"
        )
    return frozenset(siblings_named(law, "accepts") for law in accepts)


def drafting_of(verifier: object) -> Siblings:
    """Return how the K draft paths of ``verifier`` are drawn where nothing else is said; errors as above.

    Of independent siblings and independent paths, which are the same for K paths, `Siblings.INDEPENDENT`.
    """
    declared, accepted = traits_of(verifier).drafting, accepts_of(verifier)
    law = declared or next(law for law in Siblings if law in accepted)
    return Siblings.INDEPENDENT if law is Siblings.PATHS else law
