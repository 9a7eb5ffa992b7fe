"""The shapes that are tried: a covering design, in which every pair of values of two axes comes together.

Defects of shape need one condition (V above 65,536), or two (a bonus token at an odd length in float32),
seldom three. All pairs of values fit into a few hundred shapes, where their product has millions. The first
ones have most pairs that are new.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from allpairspy import AllPairs

VOCABULARIES: Final = (
    *(3, 2, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, 64, 100, 128, 255, 256, 257, 1_000, 1_024),
    *(32_000, 32_767, 32_768, 32_769, 65_537, 131_072, 151_936),
)
"""Around powers of two and the limits of number types, and sizes that are in use."""

LENGTHS: Final = (3, 1, 2, 4, 5, 6, 7, 8, 9, 16)
BATCHES: Final = (1, 2, 3, 8, 33, 64, 65, 130, 257, 1_030)
PLACES: Final = ("first", "last", "second", "middle")
TYPES: Final = ("float64", "float32", "bfloat16", "float16")
IDS: Final = ("int64", "int32")
LAYOUTS: Final = ("contiguous", "sliced", "transposed")
KINDS: Final = ("flat", "tiny", "good-draft", "zero", "peaked", "reversed", "one-hot", "equal")

MOST_NUMBERS: Final = 6_000_000
"""Most probabilities that are handed over in one call."""

MOST_OF_A_BATCH: Final = 1_000_000
"""The same for a batch; where there are too many, it is as large as can be."""

MOST_POSITIONS: Final = 1_500
"""Most positions of all requests; where there are more, the draft is as long as can be."""


@dataclass(frozen=True)
class Shape:
    """A size and a form of the arrays, the request that is looked at, and the kind of its distributions."""

    vocab_size: int
    draft_length: int
    num_paths: int = 1
    batch: int = 1
    place: str = "first"
    dtype: str = "float64"
    ids: str = "int64"
    layout: str = "contiguous"
    kind: str = "flat"

    @property
    def numbers(self) -> int:
        """How many probabilities are handed over in one call."""
        return self.batch * self.num_paths * (2 * self.draft_length + 1) * self.vocab_size

    @property
    def request(self) -> int:
        """The place of the request in its batch."""
        return {"first": 0, "second": min(1, self.batch - 1), "middle": self.batch // 2}.get(
            self.place, self.batch - 1
        )

    def __str__(self) -> str:
        special = (
            f"request {self.request} of {self.batch}" if self.batch > 1 else "",
            self.dtype,
            self.ids if self.ids != "int64" else "",
            self.layout if self.layout != "contiguous" else "",
            f"{self.kind} probabilities",
        )
        sizes = f"V {self.vocab_size}, L {self.draft_length}, K {self.num_paths}"
        return ", ".join([sizes, *filter(None, special)])


AXES: Final[Mapping[str, Sequence[Any]]] = {
    "vocab_size": VOCABULARIES,
    "draft_length": LENGTHS,
    "batch": BATCHES,
    "kind": KINDS,
    "num_paths": (1, 2, 3, 4),
    "place": PLACES,
    "dtype": TYPES,
    "layout": LAYOUTS,
    "ids": IDS,
}


@lru_cache(maxsize=16)
def design(most_numbers: int = MOST_NUMBERS, **fewer: tuple[Any, ...]) -> tuple[Shape, ...]:
    """Return shapes that cover all pairs of values, those that have most new pairs first.

    ``fewer`` are axes by name, with the values that a subject takes, or that are of interest. Where the
    arrays would have more than ``most_numbers`` probabilities the draft is shorter.
    """
    values = {**AXES, **fewer}
    rows = AllPairs([list(axis) for axis in values.values()])
    found = (_affordable(Shape(**dict(zip(values, row, strict=True))), most_numbers) for row in rows)
    return tuple(dict.fromkeys(found))


def _affordable(shape: Shape, most_numbers: int) -> Shape:
    """Return the shape with a smaller batch, or a shorter draft, where it has too many numbers."""
    most_length = MOST_POSITIONS // (shape.batch * shape.num_paths) - 1
    shape = replace(shape, draft_length=max(1, min(shape.draft_length, most_length)))
    while shape.batch > 1 and shape.numbers > min(most_numbers, MOST_OF_A_BATCH):
        shape = replace(shape, batch=shape.batch - 1 if shape.batch <= 3 else shape.batch // 2 + 1)
    while shape.draft_length > 1 and shape.numbers > most_numbers:
        shape = replace(shape, draft_length=shape.draft_length - 1)
    return shape
