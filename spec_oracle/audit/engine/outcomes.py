"""Completions as outcomes of a known distribution, for tests of samples.

An outcome is a completion; where these are too many, every token is put into one of a few bins of equal
probability, see `bins_of`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.engine.laws import target_law
from spec_oracle.contracts.engine import EngineCode, Ids

MOST_OUTCOMES = 300
BINS = 3


@dataclass(frozen=True)
class Outcomes:
    """The law [C] of outcomes, and the outcome of a completion; the last one is for impossible ones."""

    law: NDArray[np.float64]
    outcome: Callable[[Ids], int]
    completions: tuple[Ids, ...] = ()
    """The completion of each outcome, where there is one an outcome."""

    @property
    def law_of_pairs(self) -> NDArray[np.float64]:
        """The law [C * C] of the outcomes of two independent completions."""
        law: NDArray[np.float64] = np.outer(self.law, self.law).reshape(-1)
        return law

    def pairs(self, first: Sequence[Ids], second: Sequence[Ids]) -> NDArray[np.int64]:
        """Return the outcome of each pair of completions, int [N]."""
        numbers = [[self.outcome(completion) for completion in some] for some in (first, second)]
        found: NDArray[np.int64] = np.array(numbers[0]) * len(self.law) + np.array(numbers[1])
        return found


def outcomes(code: EngineCode, prompt: Ids, tokens: int, rng: np.random.Generator) -> Outcomes:
    """Return the outcomes of at most ``tokens`` tokens; ``rng`` draws the places within bins."""
    if code.vocab_size**tokens <= MOST_OUTCOMES:
        return listed_outcomes(target_law(code, prompt, tokens))
    uniform = np.full(BINS**tokens, float(BINS) ** -tokens)

    def outcome(completion: Ids) -> int:
        bins = bins_of(code, prompt, completion, tokens, rng)
        return len(uniform) if bins is None else int(bins @ BINS ** np.arange(tokens))

    return Outcomes(np.append(uniform, 0.0), outcome)


def listed_outcomes(law: Mapping[Ids, float]) -> Outcomes:
    """Return one outcome for every completion of a law."""
    number = {completion: outcome for outcome, completion in enumerate(law)}
    masses = np.array([*law.values(), 0.0])
    return Outcomes(masses / masses.sum(), lambda one: number.get(one, len(number)), tuple(law))


def bins_of(
    code: EngineCode,
    prompt: Ids,
    completion: Ids,
    tokens: int,
    rng: np.random.Generator,
    *,
    by_rank: bool = True,
) -> NDArray[np.int64] | None:
    """Return the bin of each token of a completion, int [tokens], None for an impossible completion.

    With the tokens in order of probability, or of their ids, u = (mass before the token) + (a fresh uniform)
    * (its own mass) is uniform under target-only decoding, given all that came before, so that the bins of a
    completion are independent and uniform. By probability, what a defect moves between likely and unlikely
    tokens moves mass between bins; by id, the same random numbers lead to the same bins.
    """
    ended = [code.is_ended(completion[:length]) for length in range(1, len(completion) + 1)]
    if any(ended[:-1]) or (len(completion) < tokens and ended[-1:] != [True]):
        return None
    places = rng.random(tokens)
    for position, token in enumerate(completion):
        row = code.row(prompt + completion[:position])
        if row[token] == 0:
            return None
        before = row[:token].sum()
        if by_rank:
            ids = np.arange(len(row))
            before = row[(row > row[token]) | ((row == row[token]) & (ids < token))].sum()
        places[position] = before + places[position] * row[token]
    bins: NDArray[np.int64] = np.minimum((places * BINS).astype(np.int64), BINS - 1)
    return bins
