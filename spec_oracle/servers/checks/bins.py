"""Samples of a server in bins of known probability: its completions by a tree of the likely tokens.

Nodes are expanded by next-token distributions, the most probable first, as long as they are worth it. The
leaves are bins: a whole completion; the completions that begin with a prefix that was not expanded; and at
each node all tokens but those that have bins of their own. So every completion is in one bin, and the
probability of each bin is known.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.audit.sampling import OutcomeCells
from spec_oracle.contracts import ImpossibleOutputError
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.contract import OutOfTimeError, ServerError

Leaf: TypeAlias = tuple[Prefix, bool]
"""A prefix, and whether the bin holds its completions (False), or those that go on with another token."""

Open: TypeAlias = tuple[float, int, Prefix, float]
"""What is to be expanded: minus its mass, a number that breaks ties, the prefix, and its slack."""

RARE: Leaf = ((-1, ()), True)
"""All that is too rare for a bin of its own, wherever it is."""

LEAST_ERROR = 1e-300
"""Of a token that a filter rules out, where equal requests differ: noise may let it pass."""

IMPOSSIBLE: Leaf = ((-2, ()), True)
"""What filters rule out; one sample there is a proof."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Bins of completions of at most ``length`` tokens after a random prompt; ``law`` [C] has their masses.

    The true law is within a factor of exp(+-``slack``) [C] of ``law``. ``bins`` holds the number of the bin
    of every leaf, ``leaves`` the leaf of every bin that is its own; ``expanded`` the prefixes between. The
    completions of a bin agree in their first ``depth`` tokens [C]; ``is_whole`` [C] if there is only one.
    """

    length: int
    bins: Mapping[Leaf, int]
    leaves: tuple[Leaf, ...]
    expanded: frozenset[Prefix]
    ends: frozenset[Token]
    law: Floats
    slack: Floats
    depth: Integers
    is_whole: Booleans

    @property
    def cells(self) -> OutcomeCells:
        """The bins as cells in which completions are counted; raises the errors of `bin`."""
        return OutcomeCells(self.law, self._bins_of, slack=self.slack)

    def _bins_of(self, completions: Sequence[Prefix]) -> Integers:
        return np.array([self.bin(*one) for one in completions], dtype=np.int64)

    def bin(self, number: int, tokens: tuple[Token, ...]) -> int:
        """Return the bin of a completion; raises `ImpossibleOutputError` for what cannot be one."""
        if len(tokens) > self.length:
            raise ImpossibleOutputError(
                f"a completion of {len(tokens)} tokens where at most {self.length} were asked for"
            )
        over = next((token for token in tokens[:-1] if token in self.ends), None)
        if over is not None:
            raise ImpossibleOutputError(
                f"a completion goes on after token {over!r}, which ends others: {tokens!r}"
            )
        for depth in range(len(tokens)):
            prefix, child = (number, tokens[:depth]), (number, tokens[: depth + 1])
            if prefix not in self.expanded:
                return self.bins[prefix, False]
            if child not in self.expanded:
                return self.bins.get((child, False), self.bins[prefix, True])
        raise ImpossibleOutputError(
            f"a completion stops after {len(tokens)} of {self.length} tokens: {tokens!r}"
        )


def grow_tree(distributions: Distributions, length: int, smallest: float, ends: frozenset[Token]) -> Tree:
    """Return the tree of all prompts together; asks for distributions as it grows, length / smallest at most.

    Bins of less mass than ``smallest`` are merged: with what else follows their node, then with each other,
    and at last with the smallest other one. Nodes of less than twice that mass are not expanded.
    """
    expanded, masses, errors = _leaves(distributions, length, smallest, ends)
    impossible = [leaf for leaf, mass in masses.items() if mass == 0 == errors[leaf]]
    rare = [leaf for leaf, mass in masses.items() if mass < smallest and (mass or errors[leaf])]
    kept = sorted((leaf for leaf in masses if masses[leaf] >= smallest), key=lambda leaf: -masses[leaf])
    if kept and rare and sum(masses[leaf] for leaf in rare) < smallest:
        rare.append(kept.pop())
    groups = {leaf: [leaf] for leaf in kept} | {RARE: rare, IMPOSSIBLE: impossible}
    leaves = tuple(leaf for leaf, group in groups.items() if group)
    mass_of = np.array([sum(masses[leaf] for leaf in groups[own]) for own in leaves])
    error_of = np.array([sum(errors[leaf] for leaf in groups[own]) for own in leaves])
    ended = [len(tokens) == length or not ends.isdisjoint(tokens[-1:]) for (_, tokens), _ in leaves]
    return Tree(
        length=length,
        bins={leaf: number for number, own in enumerate(leaves) for leaf in groups[own]},
        leaves=leaves,
        expanded=frozenset(expanded),
        ends=ends,
        law=mass_of / mass_of.sum(),
        slack=log_error(mass_of, error_of),
        depth=np.array([len(tokens) for (_, tokens), _ in leaves]),
        is_whole=np.array([whole and not other for whole, (_, other) in zip(ended, leaves, strict=True)]),
    )


def _leaves(
    distributions: Distributions, length: int, smallest: float, ends: frozenset[Token]
) -> tuple[set[Prefix], Mapping[Leaf, float], Mapping[Leaf, float]]:
    """Expand nodes, the most probable first; return them, and the masses of all leaves with their errors."""
    server, tie = distributions.server, count()
    least = LEAST_ERROR if distributions.is_noisy else 0.0
    expanded: set[Prefix] = set()
    masses: dict[Leaf, float] = defaultdict(float)
    errors: dict[Leaf, float] = defaultdict(float)
    heap: list[Open] = [
        (-1 / len(server.prompts), next(tie), (n, ()), 0.0) for n in range(len(server.prompts))
    ]
    while heap:
        batch = [heapq.heappop(heap) for _ in range(min(len(heap), 4 * server.client.limits.concurrency))]
        server.tell("target-only decoding", len(expanded), 0)
        distributions.fetch(prefix for _, _, prefix, _ in batch)
        for minus, _, prefix, slack in batch:
            mass, law = -minus, distributions.after(prefix)
            if law is None:
                masses[prefix, False] += mass
                errors[prefix, False] += mass * math.expm1(slack)
                continue
            expanded.add(prefix)
            masses[prefix, True] += mass * law.other
            errors[prefix, True] += mass * (math.expm1(slack) * law.other + math.exp(slack) * law.other_error)
            errors[prefix, True] += least
            number, tokens = prefix
            for token, probability in zip(law.tokens, law.probabilities, strict=True):
                child, share = (number, (*tokens, token)), mass * float(probability)
                if len(child[1]) < length and token not in ends and share >= 2 * smallest:
                    heapq.heappush(heap, (-share, next(tie), child, slack + law.slack))
                else:
                    leaf = (child, False) if share >= smallest else (prefix, True)
                    masses[leaf] += share
                    errors[leaf] += share * math.expm1(slack + law.slack)
    return expanded, masses, errors


def log_error(masses: Floats, errors: Floats) -> Floats:
    """Return errors of masses in nats, downwards, where they are larger; large where nothing is known."""
    share = np.divide(errors, masses, out=np.where(errors > 0, 1.0, 0.0), where=masses > 0)
    return np.asarray(-np.log1p(-np.minimum(share, 1 - 1e-9)))


Outcome = TypeVar("Outcome")


@dataclass
class ServedOutcomes(Generic[Outcome]):
    """The outcomes of requests, for an experiment: so many at a call, each outcome of ``found`` once.

    ``more``, if it is given, yields further ones, up to ``most``. After an error of the server, or at the
    end of the time, it is not called again; ``ended`` says why, "" if only the time is up. Raises
    `ServerError` if there is no outcome by then.
    """

    more: Callable[[int], Iterable[Outcome]] | None
    found: list[Outcome] = field(default_factory=list)
    most: float = math.inf
    given: int = field(default=0, init=False)
    is_over: bool = field(default=False, init=False)
    ended: str = field(default="", init=False)

    def __call__(self, count: int) -> list[Outcome]:
        """Return so many outcomes, fewer once there are no more."""
        missing = int(min(self.given + count, self.most)) - len(self.found)
        if self.more is not None and missing > 0 and not self.is_over:
            try:
                for one in self.more(missing):
                    self.found.append(one)
            except ServerError as error:
                self.is_over, self.ended = True, "" if isinstance(error, OutOfTimeError) else str(error)
                if not self.found:
                    raise
        some = self.found[self.given : self.given + count]
        self.given += len(some)
        return some
