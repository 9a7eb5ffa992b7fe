"""Two results that must be independent: pairs of texts against the product of the target's law with itself.

A defect of dependence leaves each result right, so that only pairs show it. The toy is small (V = 3, one
draft), because a pair has as many cells as its law has, squared.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.contracts import SamplerCode
from spec_oracle.toy import Instance


class PairToy:
    """The toy on which code is called twice: an instance for either text of a pair."""

    def __init__(self, code: SamplerCode, instances: tuple[Instance, Instance], seed: int) -> None:
        self._code = code
        self._instances = instances
        self._rng = checks_own_rng(seed)
        self._laws = [instance.floats.target.joint(instance.draft_length + 1) for instance in instances]

    @property
    def law(self) -> NDArray[np.float64]:
        """The law of a pair, flat."""
        return np.outer(*self._laws).reshape(-1)

    def texts(self, batch: int, generator: Any, member: int = 0) -> NDArray[np.int64]:
        """Call the code on fresh drafts of one instance; return the cells of its texts, int [B]."""
        instance = self._instances[member].floats
        emissions = self._code(sampled_drafts(instance, batch, self._rng), generator)
        return extended_cells(instance, emissions.tokens, emissions.lengths, self._rng)

    def paired(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of pairs."""
        return first * len(self._laws[1]) + second
