"""Shapes that have all pairs of values of two axes: those first that have most new pairs for what they cost.

One shape after the other is made: its values are chosen axis by axis, each such that the shape has most pairs
that no shape before it has, for what a run costs. Pairs with which the arrays would always be too large are
left out, and so are values that need others in the batch where there are none.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import combinations, permutations
from typing import Final, TypeAlias

from spec_oracle.audit.shapes.axes import AXES, Axes, AxisValue, Shape, needs_others

Pairs: TypeAlias = frozenset[tuple[str, AxisValue, str, AxisValue]]

MOST_OF_A_BATCH: Final = 500_000
"""Most probabilities that are handed over for a batch in one call."""

MOST_POSITIONS: Final = 300
"""Most positions of all requests, but for batches of the shortest drafts."""

_NUMBERS_A_POSITION: Final = 500
"""Numbers that cost about as much as one position, for which traced code takes about 0.1 ms."""

_A_SHAPE: Final = 60
"""What any shape costs, in positions."""

_RUNS: Final = {"spread": 4.0, "special": 0.8, "zero": 0.6, "one-hot": 0.6, "equal": 0.3}
"""How many runs rows of these kinds take, beside those of others."""

_LATER: Final = 0.01
"""What a pair counts that a value may have with one that is chosen later."""


def pairs_of(shapes: Iterable[Shape], axes: Iterable[str] = AXES) -> Pairs:
    """Return the pairs of values of two axes that come together in some shape."""
    names = [*axes]
    return frozenset(
        (one, getattr(shape, one), other, getattr(shape, other))
        for shape in shapes
        for one, other in combinations(names, 2)
    )


def _price(shape: Shape) -> float:
    return _A_SHAPE + cost(shape) * _RUNS.get(shape.kind, 1.0)


def cost(shape: Shape) -> float:
    """Return about how much a run costs at a shape, in positions of traced code."""
    return shape.positions + shape.numbers / _NUMBERS_A_POSITION


class Untried:
    """The pairs of values that no shape has yet: by axis, value and other axis, the values there as bits."""

    def __init__(self, axes: Axes, most_numbers: int) -> None:
        self._axes = dict(axes)
        self._most_numbers = most_numbers
        # Values that need others in the batch come after the first one of their axis.
        self._least = {
            name: values[0] if any(needs_others(name, value) for value in values) else min(values)
            for name, values in axes.items()
        }
        self._of_others = [
            name for name, values in axes.items() if any(needs_others(name, v) for v in values)
        ]
        self._several = min((size for size in axes["batch"] if size > 1), default=1)
        self._left: dict[tuple[str, AxisValue, str], int] = {}
        for one, other in permutations(self._axes, 2):
            for value in axes[one]:
                room = (self._shape({one: value, other: second}) is not None for second in axes[other])
                self._left[one, value, other] = sum(bit << number for number, bit in enumerate(room))

    def take(self, shape: Shape) -> Shape:
        """Return a shape; its pairs are not left any more."""
        for one, other in permutations(self._axes, 2):
            key, second = (one, getattr(shape, one), other), getattr(shape, other)
            if key in self._left and second in self._axes[other]:
                self._left[key] &= ~(1 << self._axes[other].index(second))
        return shape

    def shapes(self) -> Iterator[Shape]:
        """Yield brief shapes that have all pairs that are left."""
        queue = [(self._best({"vocab_size": vocab})[0], vocab) for vocab in self._axes["vocab_size"]]
        heapify(queue)
        while queue:
            # What a vocabulary brings mostly falls as pairs are taken: only the best is looked at again.
            vocab = queue[0][1]
            worth, shape = self._best({"vocab_size": vocab})
            if not worth:
                heappop(queue)
                continue
            heapreplace(queue, (worth, vocab))
            if queue[0][1] == vocab:
                yield self.take(shape)
        for one, value, other in self._left:
            while left := self._left[one, value, other]:
                second = self._axes[other][left.bit_length() - 1]
                yield self.take(self._best({one: value, other: second})[1])

    def _best(self, chosen: Mapping[str, AxisValue]) -> tuple[float, Shape]:
        """Return minus what a shape with ``chosen`` values is worth, and that shape."""
        gain, known = 0, dict(chosen)
        for axis in (name for name in self._axes if name not in chosen):
            masks = [self._left[one, value, axis] for one, value in known.items()]
            later = [name for name in self._axes if name not in known and name != axis]
            best: tuple[float, int, Shape] | None = None
            for number, value in enumerate(self._axes[axis]):
                shape = self._shape(known | {axis: value})
                if shape is None:
                    continue
                more = gain + sum(mask >> number & 1 for mask in masks)
                hope = sum(self._left[axis, value, other].bit_count() for other in later)
                worth = (more + _LATER * hope) / _price(shape)
                if best is None or worth > best[0]:
                    best = worth, more, shape
            assert best is not None
            gain, known = best[1], known | {axis: getattr(best[2], axis)}
        shape = self._shape(known)
        assert shape is not None
        return -gain / _price(shape), shape

    def _shape(self, values: Mapping[str, AxisValue]) -> Shape | None:
        """Return the least shape with these values, None where it is too large."""
        chosen = {**self._least, **values}
        if chosen["batch"] == 1 and any(needs_others(name, chosen[name]) for name in self._of_others):
            if "batch" in values:
                return None
            chosen["batch"] = self._several
        shape = Shape(**chosen, is_brief=True)
        is_short, is_alone = (chosen[name] == self._least[name] for name in ("draft_length", "batch"))
        too_many = not is_alone and shape.numbers > MOST_OF_A_BATCH
        too_long = not is_short and (shape.positions > MOST_POSITIONS or shape.numbers > self._most_numbers)
        return None if too_many or too_long else shape
