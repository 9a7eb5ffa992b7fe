"""The smallest instance on which a subject is lossy, found and shrunk by Hypothesis."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from spec_oracle.audit.results import Counterexample
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import Gap
from spec_oracle.toy import Instance
from spec_oracle.toy.strategies import instances


class Law(Protocol):
    """What is known of a subject's law on one instance."""

    @property
    def total_variation(self) -> Any:
        """Distance from the target."""
        ...

    @property
    def largest_gap(self) -> Gap:
        """The text with the largest gap."""
        ...


DEFECT = 1e-9
"""A total variation that no rounding explains."""

ROUNDING = 1e-13


def smallest_counterexample(
    law_of: Callable[[Instance], Law], *, max_paths: int, tolerance: float, max_examples: int = 300
) -> Instance | None:
    """Return the smallest instance found on which no rounding (``tolerance``) explains the total variation.

    Deterministic: Hypothesis is derandomised. ``max_paths`` bounds the number of draft paths.
    """

    def is_lossy(instance: Instance) -> bool:
        try:
            return float(law_of(instance).total_variation) > max(DEFECT, 10 * tolerance)
        except SpecOracleError:
            return False

    try:
        return find(
            instances(vocab_sizes=(2, 3), draft_lengths=(1, 3), num_paths=(1, max_paths), max_tuples=100),
            is_lossy,
            settings=settings(
                max_examples=max_examples,
                derandomize=True,
                deadline=None,
                database=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    except NoSuchExample:
        return None


def describe(
    subject: str, instance: Instance, law: Law, folder: Path | None, options: str = ""
) -> Counterexample:
    """Save the instance under ``folder`` (unless None) and say how to reproduce the gap."""
    file = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', subject)}.json"
        instance.save(path)
        file = str(path)
    reproduce = f"spec-oracle audit {subject} --instance {file or 'FILE'}{options}"
    sequence, _, actual = law.largest_gap
    gap = Gap(sequence, instance.exact.target.probability(sequence), as_fraction(actual))
    return Counterexample(instance, gap, as_fraction(law.total_variation), file, reproduce)


def as_fraction(value: Any, largest_denominator: int = 10**5) -> Any:
    """Return the short fraction that a float is the rounding of, if there is one; else the value."""
    if isinstance(value, Fraction):
        return value
    near = Fraction(float(value)).limit_denominator(largest_denominator)
    return near if abs(float(near) - value) < ROUNDING else value
