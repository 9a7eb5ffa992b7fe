"""The sequence on which two laws differ most."""

from typing import Any, NamedTuple

import numpy as np

from spec_oracle.arrays import Numbers
from spec_oracle.toy import Context


class Gap(NamedTuple):
    """A sequence, its probability under the target, and as the verifier produces it."""

    sequence: Context
    expected: Any
    actual: Any


def largest_gap(expected: Numbers, actual: Numbers, shape: tuple[int, ...]) -> Gap:
    """Return the sequence with the largest absolute gap; both laws flat over ``shape``."""
    index = int(np.argmax(abs(actual - expected)))
    sequence = tuple(map(int, np.unravel_index(index, shape)))
    return Gap(sequence, expected[index], actual[index])
