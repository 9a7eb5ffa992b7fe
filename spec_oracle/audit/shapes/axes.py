"""What a shape is: a size and a form of the arrays, and the values of each axis that are tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
KINDS: Final = (
    *("flat", "tiny", "good-draft", "zero", "peaked", "reversed", "one-hot", "equal"),
    *("spread", "near", "special"),
)


@dataclass(frozen=True)
class Shape:
    """A size and a form of the arrays, the request that is looked at, and the kind of its distributions.

    At a *brief* one, tried for pairs of values, one position is open, and few sampled ids are run.
    """

    vocab_size: int
    draft_length: int
    num_paths: int = 1
    batch: int = 1
    place: str = "first"
    dtype: str = "float64"
    ids: str = "int64"
    layout: str = "contiguous"
    kind: str = "flat"
    is_brief: bool = False

    @property
    def numbers(self) -> int:
        """How many probabilities are handed over in one call."""
        return self.batch * self.num_paths * (2 * self.draft_length + 1) * self.vocab_size

    @property
    def positions(self) -> int:
        """How many positions all paths of all requests have, the bonus included."""
        return self.batch * self.num_paths * (self.draft_length + 1)

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
