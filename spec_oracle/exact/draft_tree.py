"""The law of what is emitted after given drafts, and losslessness decided by it, at any size of instance.

The last decision of a verifier is the token that follows the accepted prefix. It need not be taken: its law
is read instead (`ConditionalLaw`: for each accepted prefix, a vector over the next token). So what follows
the drafts of one request costs a run for each decision before the last, whatever the vocabulary.

Where few drafts are likely, what is emitted after each of them is added up (`DraftTree`).

Let cover(s, t) be the probability that an emission begins with the tokens s and then t, and live(s) the sum
of it over t: an emission goes on after s. Continued by the target, text has the target's law iff

    cover(s, t) = live(s) p(t | s)    for every s that can be accepted and every token t:

texts that begin with s are those that go on after s and those that ended in s or before, which the target
continues. Only the prefixes of drafts can be accepted. So the law of the emission after each draft, added up
with the drafts' probabilities, proves or disproves it: with few likely drafts at any vocabulary and length.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import converted, verified_path
from spec_oracle.exact.drafting import next_draft_law
from spec_oracle.exact.enumeration import (
    Branches,
    OpenToken,
    Represented,
    ScriptedDecisions,
    enumerate_branches,
)
from spec_oracle.exact.errors import NotInTimeError, TooManyBranchesError
from spec_oracle.exact.representatives import (
    FEW_OF_A_BATCH,
    OPEN,
    Branch,
    NotAlikeError,
    Stand,
    guarded,
    require_alike,
)
from spec_oracle.toy import Context
from verifiers import AnyVerifier, Drafts, Path, Paths, Siblings

MOST_NUMBERS = 1 << 21
"""About how many probabilities the verifier gets in one batch."""

_FEW_WHERE_NONE_STANDS: Final = 64
"""Outcomes of a decision that are all run where one cannot stand for others: what it draws is no token id."""

CERTAIN: Final = 1 - 1e-9
"""Probability from which on an outcome counts as certain."""

Rows: TypeAlias = Callable[[Context], tuple[Floats, Floats]]
PathTuple: TypeAlias = tuple[Context, ...]
UNLIKELY = 1e-9
"""Tokens that are less likely are not followed as drafts: `DraftTree.unseen` is what is left out."""


@dataclass(frozen=True)
class ConditionalLaw:
    """The law of the emission of one request, given its drafts.

    ``leaves``: by accepted prefix, the mass [V] of each token as the last of the emission; one in all.
    ``assumed`` is the part of it that rests on tokens coming out as others did that were run; ``guarded`` is
    the most that guards of noise against zeros change, in total variation.
    """

    leaves: Mapping[Context, Floats]
    assumed: float = 0.0
    guarded: float = 0.0

    @property
    def is_certain(self) -> bool:
        """Whether one emission has all of the probability: no random decision mattered."""
        return bool(max(masses.max() for masses in self.leaves.values()) >= CERTAIN)

    def distance(self, other: "ConditionalLaw") -> float:
        """Return the total variation to another law."""
        prefixes = self.leaves.keys() | other.leaves.keys()
        gaps = (np.abs(self.leaves.get(s, 0.0) - other.leaves.get(s, 0.0)).sum() for s in prefixes)
        return float(sum(gaps)) / 2


Outcome: TypeAlias = Branch[tuple[Context, int]]
"""What one run comes to: its result are the accepted tokens, and the one that follows (maybe `OPEN`)."""


def conditional_laws(
    verifier: AnyVerifier,
    drafts: Drafts,
    *,
    array: str = "numpy",
    dtype: str = "float64",
    end: float = math.inf,
) -> list[ConditionalLaw]:
    """Return the law of the emission of every request of numpy ``drafts``, trees run together as one batch.

    A state is fresh. Where a token is looked at before it is returned, the drafted ones and a few more are
    run, and the others are `assumed` to lead to what these lead to. Raises `DecisionError` or `VerdictError`
    for code that is no verifier, `NotTracedError` where more decisions follow, or at the processor time
    ``end``.
    """
    chosen = arithmetic(array=array, dtype=dtype)

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Path, OpenToken | Integers]:
        return verified_path(verifier, converted(drafts.take(rows), chosen), decisions, chosen)

    numbers = 2 * (drafts.places + 1) * drafts.vocab_size
    for few in (FEW_OF_A_BATCH, _FEW_WHERE_NONE_STANDS):
        found: list[list[Outcome]] = [[] for _ in range(drafts.batch)]
        every_branch = enumerate_branches(
            run,
            np.ones(drafts.batch),
            max_rows=max(1, MOST_NUMBERS // numbers),
            arithmetic=chosen,
            leave_open=True,
            looked_at=drafts.tokens,
            few=few,
            end=end,
        )
        try:
            for branches in every_branch:
                for row, outcome in _outcomes(branches, chosen):
                    found[row].append(outcome)
            return [law_of(drafts.vocab_size, outcomes) for outcomes in found]
        except NotInTimeError:  # more outcomes take longer
            raise
        except (TooManyBranchesError, NotAlikeError) as error:
            refused = error
    raise refused


def law_of(vocab_size: int, outcomes: Sequence[Outcome]) -> ConditionalLaw:
    """Return the law of the emission of one request, from all its runs.

    Raises `NotAlikeError` unless outcomes of which few were run lead to the same.
    """
    require_alike((one.weight, one.alike, *one.result) for one in outcomes)
    leaves: dict[Context, Floats] = defaultdict(lambda: np.zeros(vocab_size))
    assumed = 0.0
    for one in outcomes:
        prefix, following = one.result
        stand = next((stand for stand in one.stands if stand.value == following), None)
        if stand is None:
            leaves[prefix][following] += one.weight
            continue
        masses, possible = np.zeros(vocab_size), stand.chances > 0
        masses[stand.values[possible]] = stand.chances[possible] * one.weight
        leaves[prefix] += masses
        assumed += 0.0 if following == OPEN else one.weight - float(masses[following])
    return ConditionalLaw(dict(leaves), assumed, guarded(outcomes))


def _outcomes(
    branches: Branches[tuple[Path, OpenToken | Integers]], chosen: Arithmetic
) -> Iterator[tuple[int, Outcome]]:
    """Yield the request and the outcome of every finished branch."""
    path, following = branches.result
    if not isinstance(following, OpenToken) and not any(branches.represented):
        emitted = chosen.to_numpy(path.tokens), chosen.to_numpy(path.lengths), following
        yield from _equal_ones(branches.rows, *emitted, branches.weight)
        return
    accepted = zip(path.tokens.tolist(), path.lengths.tolist(), strict=True)
    prefixes = [tuple(tokens[:length]) for tokens, length in accepted]
    for number, (row, weight, known) in enumerate(
        zip(branches.rows.tolist(), branches.weight.tolist(), branches.represented, strict=True)
    ):
        stand, alike = known or Represented()
        opened: tuple[Stand, ...] = ()
        token = OPEN if isinstance(following, OpenToken) else int(following[number])
        if isinstance(following, OpenToken):
            chances = following.chances[number]
            opened = (Stand(OPEN, np.arange(len(chances)), chances),)
        if stand is not None and stand.value != token:
            raise TooManyBranchesError("the code changes a sampled token id that represents others, not run")
        stands = opened if stand is None else (stand, *opened)
        yield row, Branch(weight, (prefixes[number], token), stands, alike)


def _equal_ones(
    rows: Integers, tokens: Integers, lengths: Integers, following: Integers, weight: Floats
) -> Iterator[tuple[int, Outcome]]:
    """Yield each outcome of each request once, with the probability of all branches that have it."""
    prefixes = np.where(np.arange(tokens.shape[1]) < lengths[:, None], tokens, 0)
    every = np.column_stack([rows, lengths, following, prefixes])
    found, kinds = np.unique(every, axis=0, return_inverse=True)
    masses = np.bincount(kinds.ravel(), weight)
    for (row, length, token, *prefix), mass in zip(found.tolist(), masses.tolist(), strict=True):
        yield row, Branch(mass, (tuple(prefix[:length]), token))


@dataclass(frozen=True)
class DraftTree:
    """Target and draft rows along the likely drafts.

    ``rows(context)`` are the rows [V] of target and draft after a context of up to ``draft_length`` tokens,
    always the same ones; ``drafting`` says how the ``num_paths`` paths are drawn.
    """

    vocab_size: int
    draft_length: int
    rows: Rows
    num_paths: int = 1
    drafting: Siblings = Siblings.INDEPENDENT

    @cached_property
    def likely(self) -> Mapping[PathTuple, float]:
        """The probability of every tuple of paths that is not unlikely."""
        tuples: dict[PathTuple, float] = {((),) * self.num_paths: 1.0}
        for _ in range(self.draft_length):
            for path in range(self.num_paths):
                tuples = {
                    (*paths[:path], (*paths[path], token), *paths[path + 1 :]): mass * chance
                    for paths, mass in tuples.items()
                    for token, chance in self._next(paths, path)
                }
        return tuples

    def _next(self, paths: PathTuple, path: int) -> Iterator[tuple[int, float]]:
        """Yield the likely next tokens of a path, when those before it have one more token already."""
        depth = len(paths[path])
        here = np.array([[other[:depth] == paths[path] for other in paths]])
        drawn = np.array([[other[-1] for other in paths[:path]]], dtype=np.int64).reshape(1, -1)
        law = next_draft_law(self.drafting, self.rows(paths[path])[1][None], drawn, here, path)[0]
        yield from ((int(token), float(law[token])) for token in np.flatnonzero(law > UNLIKELY))

    @property
    def unseen(self) -> float:
        """The probability of all other drafts."""
        return max(0.0, 1.0 - sum(self.likely.values()))

    def drafts(self, paths: PathTuple) -> Paths:
        """Return the drafts of one request."""
        along = [[self.rows(path[:depth]) for depth in range(self.draft_length + 1)] for path in paths]
        size = (1, self.num_paths, self.draft_length)
        return Paths(
            np.array([paths], dtype=np.int64).reshape(size),
            np.array([[[draft for _, draft in rows[:-1]] for rows in along]]).reshape(*size, self.vocab_size),
            np.array([[[target for target, _ in rows] for rows in along]]),
        )


class Account:
    """What is emitted after the drafts of a tree, added up."""

    def __init__(self, tree: DraftTree) -> None:
        self._tree = tree
        self._cover: dict[Context, Floats] = defaultdict(lambda: np.zeros(tree.vocab_size))
        self.assumed = 0.0

    def add(self, paths: PathTuple, law: ConditionalLaw) -> None:
        """Add the law of the emission after likely drafts."""
        probability = self._tree.likely[paths]
        self.assumed += probability * law.assumed
        for prefix, masses in law.leaves.items():
            mass = probability * float(masses.sum())
            self._cover[prefix] += probability * masses
            for depth, token in enumerate(prefix):
                self._cover[prefix[:depth]][token] += mass

    def total_variation(self, allowance: float = 0.0) -> float:
        """Return the distance of the text of L+1 tokens from the target's, after the drafts that were added.

        Of other drafts it knows nothing: they may change it by their probability. ``allowance`` is taken off
        every difference of two probabilities of a token, given that text goes on there.
        """
        followers: dict[Context, list[int]] = defaultdict(list)
        for context in self._cover:
            if context:
                followers[context[:-1]].append(context[-1])
        return self._gaps((), 0.0, followers, allowance) / 2

    def following(self, context: Context, mass: float) -> Floats:
        """Return the probability [V] that text begins with a context and then each token.

        ``mass`` is that of text which begins with the context. What ended there or before is continued by the
        target.
        """
        target = self._tree.rows(context)[0]
        if context not in self._cover:
            return mass * target
        cover = self._cover[context]
        return np.maximum(cover + (mass - float(cover.sum())) * target, 0.0)

    def largest_gap(self) -> tuple[Context, int, float, float]:
        """Return the tokens and the next one with the largest gap, its target probability, and the one found.

        The probability found is that of the next token, given that an emission goes on there.
        """
        gaps = []
        for context, cover in self._cover.items():
            target, live = self._tree.rows(context)[0], float(cover.sum())
            wrong = abs(cover - live * target)
            token = int(wrong.argmax())
            found = float(cover[token]) / (live or 1.0)
            gaps.append((float(wrong[token]), context, token, float(target[token]), found))
        return max(gaps)[1:]

    def _gaps(
        self, context: Context, surplus: float, followers: Mapping[Context, list[int]], allowance: float
    ) -> float:
        """Return the summed gaps of texts that begin with a context, which come too often by ``surplus``."""
        if context not in self._cover:
            return abs(surplus)
        cover, target = self._cover[context], self._tree.rows(context)[0]
        live = float(cover.sum())
        wrong = cover - live * target
        wrong -= np.clip(wrong, -allowance * live, allowance * live)
        surpluses = wrong + surplus * target
        gaps = abs(surpluses)
        total = float(gaps.sum())
        for token in followers[context]:
            below = self._gaps((*context, token), float(surpluses[token]), followers, allowance)
            total += below - float(gaps[token])
        return total
