"""What a shape is: a size and a form of the arrays, and the values of each axis that are tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
NOT_GIVEN: Final = "not given"
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "draft_lengths": (NOT_GIVEN, "full", "ragged", "short", "empty"),
    "is_greedy": (NOT_GIVEN, "nobody", "others", "every second other", "itself"),
    "generators": (NOT_GIVEN, "others", "itself", "all"),
}
"""Optional arguments of samplers, and who of a batch is what in them, the request looked at being *itself*.

Drafts are *full* for all, or *ragged* for the others, one of which has none, while the request has all L, the
first half of them (*short*), or none (*empty*). Greedy, and with a generator of their own, are those named.
"""

_OF_OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "place": PLACES[1:],
    "draft_lengths": ("ragged",),
    "is_greedy": ("others", "every second other"),
    "generators": ("others", "all"),
}


def needs_others(axis: str, value: AxisValue) -> bool:
    """Whether a value means something only where a batch has more than one request."""
    return value in _OF_OTHERS.get(axis, ())


SPARSE: Final = ("special", "zero", "equal")
"""Kinds in which few tokens are possible, whatever the vocabulary: the rows beside them are sparse, too."""

_NUMBERS_A_POSITION: Final = 500
"""Numbers that cost about as much as one position, for which traced code takes about 0.1 ms."""

_FEW, _MOST = 16, 300
"""Tokens that are run one by one: of sparse rows, and at most."""


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
    draft_lengths: str = NOT_GIVEN
    is_greedy: str = NOT_GIVEN
    generators: str = NOT_GIVEN

    @property
    def own_length(self) -> int:
        """How many tokens are drafted for the request that is looked at."""
        return {"short": self.draft_length // 2, "empty": 0}.get(self.draft_lengths, self.draft_length)

    @property
    def options(self) -> dict[str, str]:
        """The optional arguments that are given."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in given.items() if value != NOT_GIVEN}

    @property
    def numbers(self) -> int:
        """How many probabilities are handed over in one call."""
        return self.batch * self.num_paths * (2 * self.draft_length + 1) * self.vocab_size

    @property
    def positions(self) -> int:
        """How many positions all paths of all requests have, the bonus included."""
        return self.batch * self.num_paths * (self.draft_length + 1)

    @property
    def work(self) -> float:
        """About what the runs of a shape cost, in positions: tokens that are run one by one add to it."""
        outcomes = min(self.vocab_size, _FEW if self.kind in SPARSE else _MOST)
        return self.positions + self.numbers / _NUMBERS_A_POSITION + outcomes

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
            *(f"{name} {value}" for name, value in self.options.items()),
            f"{self.kind} probabilities",
        )
        sizes = f"V {self.vocab_size}, L {self.draft_length}, K {self.num_paths}"
        return ", ".join([sizes, *filter(None, special)])


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
