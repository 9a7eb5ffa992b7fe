"""Cells in which sampled completions of an engine are counted: one for each, or tokens in bins."""

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.sampling import OutcomeCells, listed
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.exact.completions import Ids
from spec_oracle.statistics import DEFAULT_ALPHA, draws_needed_by_g

ENGINE_TV: Final = 0.1  # TV that samples must be able to detect before they may call an engine lossless.

MOST_OUTCOMES = 300
BINS = 3
MOST_BINNED = 5
"""How many tokens of a completion have bins: so that there are fewer outcomes than `MOST_OUTCOMES`."""
FEW_IDS, ID_BINS, MOST_BINNED_WITH_IDS = 8, 27, 3
"""Ids beyond which tokens have bins by id, too; how many bins; how many places have bins by probability."""
RARER = 2
"""How many times as many samples as bins outcomes may take."""


def outcomes(
    code: EngineCode, prompt: Ids, tokens: int, rng: np.random.Generator, *, by_id: bool = False
) -> OutcomeCells:
    """Return a cell for every completion, or tokens in bins of equal probability.

    Bins where completions are too many, or so rare that they take many more samples of an engine that decodes
    one request at a time. Of long completions the tokens at `binned` places have bins. ``by_id``: of large
    vocabularies half of the completions have one token, at any place, in bins by id.
    """
    is_mixed = by_id and code.vocab_size > FEW_IDS
    places = binned(tokens, MOST_BINNED_WITH_IDS if is_mixed else MOST_BINNED)
    by_rank = BINS ** len(places)
    masses = [np.full(by_rank, 1 / by_rank)]
    if is_mixed:
        masses = [masses[0] / 2, np.full(ID_BINS, 0.5 / ID_BINS)]
    law = np.concatenate([*masses, [0.0]])
    if code.vocab_size**tokens <= MOST_OUTCOMES:
        each = listed(code.law(prompt, tokens))
        needed, for_bins = (draws_needed_by_g(ENGINE_TV, one, alpha=DEFAULT_ALPHA) for one in (each.law, law))
        if needed <= RARER * for_bins or code.has("start_many"):
            return each

    def cell(completion: Ids) -> int:
        inside = rng.random(tokens)
        if is_mixed and rng.random() < 0.5:
            bins = code.bins(prompt, completion, inside, ID_BINS, by_id=True)
            return len(law) - 1 if bins is None else by_rank + int(rng.choice(bins))
        bins = code.bins(prompt, completion, inside, BINS)
        return len(law) - 1 if bins is None else int(bins[places] @ BINS ** np.arange(len(places)))

    return OutcomeCells(law, lambda found: np.array([cell(one) for one in found], np.int64))


def binned(tokens: int, most: int = MOST_BINNED) -> list[int]:
    """Return the places of a completion whose tokens have bins: all, or a few from the first to the last.

    >>> binned(4), binned(48)
    ([0, 1, 2, 3], [0, 12, 24, 35, 47])
    """
    places: list[int] = np.linspace(0, tokens - 1, min(tokens, most)).round().astype(int).tolist()
    return places


def crossed(kinds: Sequence[OutcomeCells]) -> OutcomeCells:
    """Return the cells of tuples of independent outcomes, one of each kind."""
    law = reduce(lambda law, kind: np.outer(law, kind.law).reshape(-1), kinds, np.ones(1))
    sizes = [len(kind.law) for kind in kinds]

    def of(found: Sequence[Any]) -> Integers:
        columns = [kind.of([one[number] for one in found]) for number, kind in enumerate(kinds)]
        return np.ravel_multi_index(columns, sizes)

    if not all(kind.outcomes for kind in kinds):
        return OutcomeCells(law, of)
    named = itertools.product(*([*kind.outcomes, None] for kind in kinds))
    return OutcomeCells(law, of, [None if None in some else some for some in named])
