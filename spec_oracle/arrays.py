"""The types of arrays, as signatures name them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Number: TypeAlias = Any
"""A float, or a rational."""
Numbers: TypeAlias = NDArray[Any]
"""Of any type: floats, or rationals in object arrays."""
