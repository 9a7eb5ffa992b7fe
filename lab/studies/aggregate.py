"""What a set of measured toys says: distributions of the shortfall, comparisons, losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.studies.measure import Record
from lab.studies.toys import Toy

TIE = 1e-9
"""Shortfalls that differ by less are equal."""

FACTORS: dict[str, Callable[[Toy], str]] = {
    "vocabulary V": lambda toy: str(toy.size[0]),
    "draft length L": lambda toy: str(toy.size[1]),
    "paths K": lambda toy: str(toy.size[2]),
    "draft quality": lambda toy: toy.quality,
    "rows": lambda toy: toy.concentration,
}
"""How toys are grouped: factor, and the level of a toy."""


@dataclass(frozen=True)
class Summary:
    """The shortfall of one rule over ``toys`` toys, as shares of the optimum.

    ``best`` is the number of toys on which no rule of the comparison is better; ``reference_mean`` the mean
    shortfall of the reference rule on the same toys.
    """

    rule: str
    toys: int
    mean: float
    median: float
    ninth_decile: float
    worst: float
    best: int
    reference_mean: float


def summary(records: Sequence[Record], rule: str, rivals: Sequence[str], reference: str) -> Summary:
    """Summarise ``rule`` on the toys it was tried on, against ``rivals`` tried there and ``reference``."""
    tried = [record for record in records if rule in record.shortfall]
    values = np.array([record.shortfall[rule] for record in tried])
    least = [min(record.shortfall[name] for name in rivals if name in record.shortfall) for record in tried]
    return Summary(
        rule,
        len(tried),
        float(values.mean()),
        float(np.median(values)),
        float(np.quantile(values, 0.9)),
        float(values.max()),
        int((values <= np.array(least) + TIE).sum()),
        float(np.mean([record.shortfall[reference] for record in tried])),
    )


def mean_by_level(records: Sequence[Record], factor: str, rule: str) -> dict[str, float]:
    """Return the mean shortfall of ``rule`` at each level of ``factor``; numbers ascend."""
    level_of = FACTORS[factor]
    values: dict[str, list[float]] = {}
    for record in records:
        if rule in record.shortfall:
            values.setdefault(level_of(record.toy), []).append(record.shortfall[rule])
    in_order = sorted(values) if all(level.isdigit() for level in values) else values
    return {level: float(np.mean(values[level])) for level in in_order}


@dataclass(frozen=True)
class Losses:
    """On which toys ``rival`` is better than the reference: ``records``, smallest toy first.

    ``largest`` is the record with the largest difference.
    """

    rival: str
    records: tuple[Record, ...]
    largest: Record


def losses(records: Sequence[Record], reference: str, rivals: Sequence[str]) -> list[Losses]:
    """Return, for each rival that ever beats ``reference``, where."""
    found = []
    for rival in rivals:
        lost = [
            record
            for record in records
            if rival in record.shortfall and record.shortfall[rival] < record.shortfall[reference] - TIE
        ]
        if lost:
            lost.sort(key=lambda record: record.toy.num_tuples)
            largest = max(lost, key=lambda record: record.shortfall[reference] - record.shortfall[rival])
            found.append(Losses(rival, tuple(lost), largest))
    return found
