"""Two results that must be independent: pairs of texts against the product of the target's law with itself.

A defect of dependence leaves each result right, so that only pairs show it. The toy is small (V = 3, one
draft), because a pair has as many cells as its law has, squared.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.plain import call_plain
from spec_oracle.audit.subjects import Subject
from spec_oracle.toy import Instance


class PairToy:
    """The toy on which functions are called twice."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance = instance.floats
        self._rng = checks_own_rng(seed)

    @cached_property
    def single(self) -> NDArray[np.float64]:
        """The law of one text, [V^(L+1)]."""
        return self.instance.target.joint(self.instance.draft_length + 1)

    @cached_property
    def law(self) -> NDArray[np.float64]:
        """The law of a pair, flat."""
        return np.outer(self.single, self.single).reshape(-1)

    def texts(self, subject: Subject, batch: int, generator: Any) -> NDArray[np.int64]:
        """Call the subject on fresh drafts; return the cells of its texts, int [B]."""
        drafts = sampled_drafts(self.instance, batch, self._rng)
        emissions = call_plain(subject, drafts, generator)
        return extended_cells(self.instance, emissions.tokens, emissions.lengths, self._rng)

    def paired(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of pairs."""
        return first * len(self.single) + second


def pairs_over(rounds: int, pair: Any) -> Iterator[list[NDArray[np.int64]]]:
    """Yield ``rounds`` samples of pairs; ``pair(number)`` draws one."""
    for number in range(rounds):
        yield [pair(number)]
