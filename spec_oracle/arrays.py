"""The types of arrays and of JSON, as signatures name them."""

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Number: TypeAlias = Any
"""A float, or a rational."""
Numbers: TypeAlias = NDArray[Any]
"""Of any type: floats, or rationals in object arrays."""
Objects: TypeAlias = NDArray[np.object_]
"""Of numbers, and of random numbers that are traced."""
Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""The shape of what is drawn, as numpy takes it: None for a scalar."""
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Of parsed JSON and TOML, and of what is written as JSON."""
