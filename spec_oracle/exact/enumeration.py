"""The enumerating decision source: run code under test on every outcome of its random decisions.

A script holds the outcomes of the decisions made so far, for a whole batch of branches. The code runs until
it asks for a decision beyond the script; there each branch is replicated once per outcome of positive
probability, and the code runs again. So a code with n decisions in sequence runs n + 1 times, always on
whole batches, and no second implementation of it is involved.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import SpecOracleError
from verifiers.arrays import is_nan, minimum_one, positive_part

T = TypeVar("T")
Array = Any

MASS_TOLERANCE = 1e-9


class DecisionError(SpecOracleError):
    """The code under test asked for an impossible decision, or does not repeat itself under a script."""


class _Undecided(Exception):  # noqa: N818  # a signal, not an error
    """Raised inside the code under test at the first decision that the script does not cover."""

    def __init__(self, chances: NDArray[Any]) -> None:
        """``chances`` [rows, decisions, outcomes] of what was asked at once."""
        self.chances = chances


class ScriptedDecisions:
    """A `verifiers.DecisionSource` that answers from a script, in order, for a batch of rows.

    ``script`` holds what was asked and answered, one `_Answer` per call. ``to_numpy`` and ``from_numpy``
    translate between the arrays of the code under test and numpy. The first axis of every request must be
    the batch.
    """

    def __init__(
        self,
        script: list["_Answer"],
        to_numpy: Callable[[Array], NDArray[Any]],
        from_numpy: Callable[[NDArray[Any]], Array],
    ) -> None:
        self._script = script
        self._position = 0
        self._to_numpy = to_numpy
        self._from_numpy = from_numpy

    def bernoulli(self, probability: Array) -> Array:
        """Answer with True or False from the script; chances outside [0, 1] are clipped."""
        chance = self._to_numpy(probability)
        _refuse(is_nan(chance), self._position, "a probability is NaN")
        chance = minimum_one(positive_part(chance))
        answer = self._next(np.stack([1 - chance, chance], axis=-1), chance.shape)
        return self._from_numpy(answer.astype(bool))

    def categorical(self, weights: Array) -> Array:
        """Answer with an index from the script; refuses negative, NaN and all-zero weights."""
        weight = self._to_numpy(weights)
        _refuse(is_nan(weight), self._position, "a weight is NaN")
        _refuse(weight < 0, self._position, "a weight is negative")
        total = weight.sum(axis=-1, keepdims=True)
        _refuse(total <= 0, self._position, "all weights are zero")
        return self._from_numpy(self._next(weight / total, weight.shape[:-1]))

    def _next(self, chances: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
        asked = chances.reshape(shape[0], -1, chances.shape[-1])
        if self._position == len(self._script):
            raise _Undecided(asked)
        answer = self._script[self._position]
        answer.require_same(asked, self._position)
        self._position += 1
        return answer.outcomes.reshape(shape)


@dataclass(frozen=True)
class _Answer:
    """The ``outcomes`` int [rows, decisions] of one call, and the chances [rows, decisions] they had."""

    outcomes: NDArray[np.int64]
    chances: NDArray[np.float64]

    def of_rows(self, rows: Any) -> "_Answer":
        return _Answer(self.outcomes[rows], self.chances[rows])

    def require_same(self, asked: NDArray[Any], position: int) -> None:
        """Raise `DecisionError` unless the code asks what it asked before, in the same place."""
        same = asked.shape[:2] == self.outcomes.shape
        if same:
            now = np.take_along_axis(asked, self.outcomes[:, :, None], axis=2)[:, :, 0]
            same = np.allclose(now.astype(np.float64), self.chances, rtol=0, atol=MASS_TOLERANCE)
        if not same:
            raise DecisionError(
                f"decision {position}: asked differently under the same script; decisions must follow from "
                "inputs and earlier decisions alone, so the code takes randomness from elsewhere"
            )


def _refuse(bad: NDArray[np.bool_], decision: int, what: str) -> None:
    bad = np.asarray(bad, dtype=bool)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DecisionError(f"decision {decision}: {what} at index {index}")


@dataclass(frozen=True)
class Branches(Generic[T]):
    """A batch of finished branches: their input ``rows``, int [R], ``weight`` [R] and joint ``result``."""

    rows: NDArray[np.int64]
    weight: NDArray[Any]
    result: T


@dataclass(frozen=True)
class _Unfinished:
    rows: NDArray[np.int64]
    weight: NDArray[Any]
    script: list[_Answer]

    def pieces(self, size: int) -> Iterator["_Unfinished"]:
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            yield _Unfinished(
                self.rows[part], self.weight[part], [answer.of_rows(part) for answer in self.script]
            )


def enumerate_branches(
    run: Callable[[NDArray[np.int64], ScriptedDecisions], T],
    probability: NDArray[Any],
    *,
    max_rows: int,
    to_numpy: Callable[[Array], NDArray[Any]] = np.asarray,
    from_numpy: Callable[[NDArray[Any]], Array] = np.asarray,
) -> Iterator[Branches[T]]:
    """Run ``run(rows, decisions)`` on every outcome of its decisions.

    ``probability`` [N] is the mass of each input row; ``rows`` selects input rows, with repetition, at most
    ``max_rows`` at a time. Yields finished branches whose weights sum to ``probability`` row by row. Raises
    `DecisionError` for impossible decisions and when mass is lost, the mark of code that takes randomness
    from elsewhere.
    """
    mass_in = probability.astype(np.float64)
    mass_out = np.zeros(len(probability))
    start = _Unfinished(np.arange(len(probability)), probability, [])
    unfinished = list(start.pieces(max_rows))
    while unfinished:
        branch = unfinished.pop()
        decisions = ScriptedDecisions(branch.script, to_numpy, from_numpy)
        try:
            result = run(branch.rows, decisions)
        except _Undecided as undecided:
            unfinished.extend(_expand(branch, undecided.chances).pieces(max_rows))
            continue
        np.add.at(mass_out, branch.rows, branch.weight.astype(np.float64))
        yield Branches(branch.rows, branch.weight, result)
    if not np.allclose(mass_in, mass_out, rtol=MASS_TOLERANCE, atol=MASS_TOLERANCE * mass_in.max()):
        worst = int(np.argmax(np.abs(mass_in - mass_out)))
        raise DecisionError(
            f"input row {worst}: branches carry mass {mass_out[worst]:.12g} of {mass_in[worst]:.12g}; "
            "the code takes randomness from elsewhere or mixes up rows of the batch"
        )


def _expand(branch: _Unfinished, chances: NDArray[Any]) -> _Unfinished:
    """Replicate each row once per joint outcome of positive probability of the decisions asked for."""
    if len(chances) != len(branch.rows):
        raise DecisionError(
            f"decision {len(branch.script)}: asked for {len(chances)} rows in a batch of {len(branch.rows)}"
        )
    source = np.arange(len(branch.rows))
    weight = branch.weight
    outcomes = np.zeros((len(source), 0), dtype=np.int64)
    taken = np.zeros((len(source), 0))
    for decision in range(chances.shape[1]):
        chance = chances[source, decision]
        kept, outcome = np.nonzero(chance > 0)
        factor = chance[kept, outcome]
        weight = weight[kept] * factor
        outcomes = np.concatenate([outcomes[kept], outcome[:, None]], axis=1)
        taken = np.concatenate([taken[kept], factor[:, None].astype(np.float64)], axis=1)
        source = source[kept]
    script = [*(earlier.of_rows(source) for earlier in branch.script), _Answer(outcomes, taken)]
    return _Unfinished(branch.rows[source], weight, script)
