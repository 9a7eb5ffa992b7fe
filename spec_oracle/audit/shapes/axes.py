"""The values of each axis of shapes: `spec_oracle.audit.covering` chooses the shapes that are tried."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

AxisValue: TypeAlias = Any  # an int on axes of sizes, a str on others

VOCABULARIES: Final = (3, 2, 5, 7, 8, 128, 257, 1_000, 32_769, 65_537, 151_936)
"""A power of two and its neighbour, a tile, more than ids of 8, 15 and 16 bits hold, and sizes in use."""

LENGTHS: Final = (3, 1, 2, 5, 8, 16)
BATCHES: Final = (1, 2, 3, 5, 33, 130, 1_030)
"""More than limits that engines have or had: a capacity of 2, tiles of 32 and 128, blocks of 1,024."""

PLACES: Final = ("first", "last", "second", "middle")
TYPES: Final = ("float64", "float32", "bfloat16", "float16")
IDS: Final = ("int64", "int32")
LAYOUTS: Final = ("contiguous", "sliced", "transposed")
KINDS: Final = ("flat", "tiny", "zero", "one-hot", "equal", "near", "special")

AXES: Final[Mapping[str, Sequence[AxisValue]]] = {
    "vocab_size": VOCABULARIES,
    "draft_length": LENGTHS,
    "batch": BATCHES,
    "kind": KINDS,
    "num_paths": (1, 2, 3),
    "place": PLACES,
    "dtype": TYPES,
    "layout": LAYOUTS,
    "ids": IDS,
}

NAMES: Final[Mapping[str, str]] = {
    "vocab_size": "vocabularies",
    "draft_length": "lengths",
    "batch": "batches",
    "num_paths": "paths",
    "layout": "layouts",
    "ids": "ids",
}
"""Axes whose values a user can declare to be all that the code takes, and the names of the options."""
