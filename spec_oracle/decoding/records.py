"""What a decoding run leaves behind."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Call:
    """One verification step of the requests that were still running.

    ``requests`` int [R], their numbers; ``num_accepted`` int [R], the accepted lengths tau; ``expected``
    float [R] or None, the expectation of tau given the drafts, over the verifier's decisions.
    """

    requests: NDArray[np.int64]
    num_accepted: NDArray[np.int64]
    expected: NDArray[np.float64] | None


@dataclass(frozen=True)
class Decoded:
    """The ``texts`` after each prompt, stop token included, and the ``calls`` that made them."""

    texts: tuple[tuple[int, ...], ...]
    calls: tuple[Call, ...]

    @cached_property
    def accepted_lengths(self) -> NDArray[np.int64]:
        """The accepted length of every request in every call, flat."""
        return np.concatenate([call.num_accepted for call in self.calls])

    @property
    def block_efficiency(self) -> float:
        """Mean tokens per call as drawn; what a stop token or the token limit cut off is counted."""
        return float(self.accepted_lengths.mean()) + 1

    @property
    def conditional_block_efficiency(self) -> float:
        """Mean over drawn drafts of the exact expectation given them: same mean, less variance.

        The Rao-Blackwell estimate; NaN when the run did not compute expectations.
        """
        expected = [call.expected for call in self.calls if call.expected is not None]
        return float(np.concatenate(expected).mean()) + 1 if expected else float("nan")
