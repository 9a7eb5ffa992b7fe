"""Distributions of completions: of target-only decoding, by rows; their outcomes, bins and distances.

Every token of a completion has its row, given all that came before it.

>>> law = completion_law(lambda completion: np.array([0.75, 0.25]), [(1,)], 2)
>>> {completion: float(mass) for completion, mass in sorted(law.items())}
{(0, 0): 0.5625, (0, 1): 0.1875, (1,): 0.25}
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers, Number, Numbers
from spec_oracle.toy import Context

Ids: TypeAlias = tuple[int, ...]
"""Token ids of a prompt, of a completion, or of both."""

Rows: TypeAlias = Callable[[Ids], Floats]
"""The row [V] of the token after a completion so far."""


class Gap(NamedTuple):
    """A sequence, its probability under the target, and as the verifier produces it."""

    sequence: Context
    expected: Number
    actual: Number

    @property
    def digits(self) -> int:
        """Significant digits that tell the probabilities apart in print: 4, or more where 4 do not.

        >>> Gap((0, 1), 2 / 3, 0.5).digits, Gap((0, 1), 2 / 3, 2 / 3 + 1e-5).digits
        (4, 5)
        """
        both = float(self.expected), float(self.actual)
        return next((some for some in range(4, 17) if len({f"{one:.{some}g}" for one in both}) > 1), 4)


def largest_gap(expected: Numbers, actual: Numbers, shape: tuple[int, ...]) -> Gap:
    """Return the sequence with the largest absolute gap; both laws flat over ``shape``."""
    index = int(np.argmax(abs(actual - expected)))
    sequence = tuple(map(int, np.unravel_index(index, shape)))
    return Gap(sequence, expected[index], actual[index])


def is_ended(completion: Ids, endings: Sequence[Ids]) -> bool:
    """Whether a completion ends here, whatever its length: with one of some sequences."""
    return any(completion[-len(ending) :] == ending for ending in endings)


def completion_law(row: Rows, endings: Sequence[Ids], tokens: int, before: Ids = ()) -> dict[Ids, float]:
    """Return the law of completions of ``tokens`` tokens, or shorter ones that end; none are impossible.

    They begin with the tokens ``before``, which count.
    """
    law: dict[Ids, float] = {}
    pending: list[tuple[Ids, float]] = [(before, 1.0)]
    while pending:
        completion, mass = pending.pop()
        if len(completion) == tokens or (completion and is_ended(completion, endings)):
            law[completion] = mass
            continue
        chances = row(completion)
        possible = chances.nonzero()[0].tolist()
        pending += [((*completion, token), mass * float(chances[token])) for token in possible]
    return law


def product(laws: Sequence[Mapping[Ids, float]]) -> dict[tuple[Ids, ...], float]:
    """Return the law of independent completions."""
    joint: dict[tuple[Ids, ...], float] = {(): 1.0}
    for law in laws:
        pairs = itertools.product(joint.items(), law.items())
        joint = {(*before, one): mass * chance for (before, mass), (one, chance) in pairs}
    return joint


def distance(law: Mapping[Any, float], expected: Mapping[Any, float]) -> float:
    """Return the total variation between two laws of completions."""
    return math.fsum(abs(law.get(one, 0.0) - expected.get(one, 0.0)) for one in {*law, *expected}) / 2


def summed(masses: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    """Return the law of outcomes whose mass comes in parts."""
    parts: dict[Any, list[float]] = defaultdict(list)
    for outcome, mass in masses:
        parts[outcome].append(mass)
    return {outcome: math.fsum(listed) for outcome, listed in parts.items()}


def completion_gap(law: Mapping[Any, float], expected: Mapping[Any, float]) -> Gap:
    """Return the completion with the largest gap; of equal ones the first."""
    gaps = {one: abs(law.get(one, 0.0) - expected.get(one, 0.0)) for one in {*law, *expected}}
    worst = min(gaps, key=lambda one: (-round(gaps[one], 9), one))
    return Gap(worst, expected.get(worst, 0.0), law.get(worst, 0.0))


def masses_along(
    row: Rows, endings: Sequence[Ids], completion: Ids, tokens: int, *, by_id: bool = False
) -> tuple[Floats, Floats] | None:
    """Return the mass before each of T = ``tokens`` tokens of a completion, and its own, [T] each.

    Likelier tokens come before a token, or smaller ids: these show ids that never come. Behind the end of a
    completion the masses are 0 and 1. None for an impossible completion.
    """
    ended = [is_ended(completion[:length], endings) for length in range(1, len(completion) + 1)]
    if any(ended[:-1]) or (len(completion) < tokens and ended[-1:] != [True]):
        return None
    before, own = np.zeros(tokens), np.ones(tokens)
    for position, token in enumerate(completion):
        chances = row(completion[:position])
        if chances[token] == 0:
            return None
        first = np.arange(len(chances)) < token
        if not by_id:
            first = (chances > chances[token]) | ((chances == chances[token]) & first)
        before[position], own[position] = chances[first].sum(), chances[token]
    return before, own


def equal_bins(before: Floats, own: Floats, places: Floats, bins: int) -> Integers:
    """Return the bin of each of T tokens of a completion, int [T]; its masses are those of `masses_along`.

    u = (mass before the token) + (a uniform of ``places`` [T]) * (its own mass) is uniform, given all that
    came before, so that the bins of a completion are independent and uniform. By probability, what a defect
    moves between likely and unlikely tokens moves mass between bins; by id, the same random numbers lead to
    the same bins.
    """
    return np.minimum(((before + places * own) * bins).astype(np.int64), bins - 1)
