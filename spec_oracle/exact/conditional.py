"""The law of the emission after given drafts: by accepted prefix, a vector over the next token.

The last decision of a verifier is the token that follows the accepted prefix. It need not be taken: its law
is read instead. So what follows the drafts of one request costs a run for each decision before the last,
whatever the vocabulary.
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import call_verifier, fresh_state, within
from spec_oracle.exact.enumeration import (
    Branches,
    OpenToken,
    ScriptedDecisions,
    TooManyOutcomesError,
    enumerate_branches,
)
from spec_oracle.toy import Context
from verifiers import AnyVerifier, Drafts, Verdict

Floats: TypeAlias = NDArray[np.float64]

MOST_NUMBERS = 1 << 21
"""About how many probabilities are handed over at once."""

FEW = 16
"""So many outcomes of a decision are all run, whatever they are."""


@dataclass(frozen=True)
class ConditionalLaw:
    """The law of the emission of one request, given its drafts.

    ``leaves``: by accepted prefix, the mass [V] of each token as the last of the emission; one in all.
    ``assumed`` is the part of it that rests on tokens coming out as others did that were run.
    """

    leaves: Mapping[Context, Floats]
    assumed: float = 0.0

    @property
    def emissions(self) -> dict[Context, float]:
        """The probability of each emission that is possible."""
        return {
            (*prefix, int(token)): float(masses[token])
            for prefix, masses in self.leaves.items()
            for token in np.flatnonzero(masses)
        }

    def distance(self, other: "ConditionalLaw") -> float:
        """Return the total variation to another law."""
        prefixes = self.leaves.keys() | other.leaves.keys()
        gaps = (np.abs(self.leaves.get(s, 0.0) - other.leaves.get(s, 0.0)).sum() for s in prefixes)
        return float(sum(gaps)) / 2


def conditional_laws(
    verifier: AnyVerifier,
    drafts: Drafts,
    *,
    array: str = "numpy",
    dtype: str = "float64",
    end: float = math.inf,
) -> list[ConditionalLaw]:
    """Return the law of the emission of every request of numpy ``drafts``, run together as one batch.

    A state is fresh. Where a token is looked at before it is returned, the drafted ones and a few more are
    run, and the others `assumed` to come out as these. Raises `DecisionError` or `VerdictError` for code that
    is no verifier, `TooManyOutcomesError` where more decisions follow, or at the processor time ``end``.
    """
    chosen = arithmetic(array=array, dtype=dtype)
    arrays = (drafts.tokens, drafts.draft_probs, drafts.target_probs)

    def run(rows: NDArray[np.int64], decisions: ScriptedDecisions) -> Verdict:
        if time.process_time() > end:
            raise TooManyOutcomesError("no time left")
        tokens, draft, target = (some[rows] for some in arrays)
        handed = Drafts(chosen.from_numpy(tokens), chosen.probabilities(draft), chosen.probabilities(target))
        return call_verifier(verifier, handed, decisions, fresh_state(verifier, len(rows)))[0]

    laws = [Leaves(drafts.vocab_size) for _ in range(drafts.batch)]
    numbers = drafts.num_paths * (2 * drafts.draft_length + 1) * drafts.vocab_size
    for branches in enumerate_branches(
        run,
        np.ones(drafts.batch),
        max_rows=max(1, MOST_NUMBERS // numbers),
        to_numpy=chosen.to_numpy,
        from_numpy=chosen.from_numpy,
        leave_open=True,
        tried=partial(tried, drafts.tokens.reshape(drafts.batch, -1)),
    ):
        _add(laws, branches, drafts, chosen)
    return [law.law for law in laws]


def tried(
    drafted: NDArray[np.int64], rows: NDArray[np.int64], chances: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Choose outcomes to run, a `Tried`: all of few; else those ``drafted`` [N, n], both ends, and the
    likeliest.

    The likeliest that is not drafted stands for the others.
    """
    possible = chances > 0
    run, standing = possible.copy(), np.full(len(rows), -1)
    for row in np.flatnonzero(possible.sum(axis=1) > FEW):
        others = possible[row].copy()
        others[drafted[rows[row]][drafted[rows[row]] < len(others)]] = False
        ids = np.flatnonzero(others)
        if len(ids) > FEW:
            standing[row] = ids[chances[row, ids].argmax()]
            run[row] = possible[row] & ~others
            run[row, [ids[0], ids[-1], standing[row]]] = True
    return run, standing


class Leaves:
    """A conditional law that is being put together."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self._masses: dict[Context, Floats] = defaultdict(lambda: np.zeros(vocab_size))
        self._assumed = 0.0

    def add(self, prefix: Context, token: int, weight: float) -> None:
        """Add the mass of an emission: the accepted tokens, and the one that follows."""
        self._masses[prefix][token] += weight

    def add_all(self, prefix: Context, masses: Floats, assumed: float = 0.0) -> None:
        """Add the masses [V] of all tokens that follow; the part that is ``assumed`` is only told."""
        self._masses[prefix] += masses
        self._assumed += assumed

    @property
    def law(self) -> ConditionalLaw:
        """The law so far."""
        return ConditionalLaw(dict(self._masses), self._assumed)


def _add(laws: list[Leaves], branches: Branches[Verdict], drafts: Drafts, chosen: Arithmetic) -> None:
    """Add finished branches to the laws of their requests."""
    verdict = branches.result
    tau = within("num_accepted", chosen.to_numpy(verdict.num_accepted), drafts.draft_length + 1)
    path = within("path", chosen.to_numpy(verdict.path), drafts.num_paths)
    is_open = isinstance(verdict.next_token, OpenToken)
    last = None if is_open else within("next_token", chosen.to_numpy(verdict.next_token), drafts.vocab_size)
    for number, (row, weight, rest) in enumerate(
        zip(branches.rows, branches.weight, branches.rests, strict=True)
    ):
        prefix = tuple(drafts.tokens[row, path[number], : tau[number]].tolist())
        if last is None:
            if rest is not None:
                raise TooManyOutcomesError("a decision follows one of which not all outcomes are run")
            laws[row].add_all(prefix, weight * verdict.next_token.chances[number])
            continue
        laws[row].add(prefix, last[number], weight)
        if rest is not None:
            if last[number] != rest.outcome:
                raise TooManyOutcomesError("a token comes out as another one")
            laws[row].add_all(prefix, rest.weight, rest.weight.sum())
