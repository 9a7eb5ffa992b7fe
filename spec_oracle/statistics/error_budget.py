"""One false-alarm rate for a whole run, handed out to checks and tests before anything is drawn.

Each check owns a fixed share (`CHECK_SHARES`) and divides it evenly over the tests it announces. The rate of
a test depends on the *set* of announced names only: not on their order, not on which worker runs them, not on
what other tests found. The rates add up to the run's alpha at most, so by the union bound a run without
defects raises any alarm with probability alpha at most. Nothing is handed out twice: a retry has no rate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.validation import require_rate

DEFAULT_ALPHA = 1e-6
"""Chance that a run over correct subjects raises any false alarm."""

CHECK_SHARES: Mapping[str, Fraction] = MappingProxyType(
    {
        "joint": Fraction(30, 100),
        "length": Fraction(10, 100),
        "calls": Fraction(20, 100),
        "draft-law": Fraction(10, 100),
        "streams": Fraction(10, 100),
        "batch": Fraction(10, 100),
        "bad-input": Fraction(1, 100),
        "inputs-kept": Fraction(1, 100),
        "scale": Fraction(8, 100),
    }
)
"""Share of the run's alpha that each check owns, used or not. The number of draws grows with the logarithm of
a rate only, so that shares need no tuning: a tenth of the rate costs a tenth more draws or so."""


@dataclass(frozen=True)
class ErrorBudget:
    """The false-alarm rate ``alpha`` of one run."""

    alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        require_rate(self.alpha, "alpha")

    def rate_of(self, check: str) -> float:
        """False-alarm rate of a check; raises `InvalidInputError` for one that is not in the registry."""
        if check not in CHECK_SHARES:
            raise InvalidInputError(f"check: expected one of {', '.join(CHECK_SHARES)}, got {check!r}")
        return self.alpha * float(CHECK_SHARES[check])

    def rates_of_tests(self, check: str, tests: Iterable[str]) -> Mapping[str, float]:
        """False-alarm rate of every test of a check, by name, sorted; ``tests`` must name all of the run's.

        Raises `InvalidInputError` when a name comes twice (that would be a retry) or when there is none.
        """
        announced = Counter(tests)
        if not announced:
            raise InvalidInputError(f"tests: expected at least one name for check {check!r}, got none")
        name, times = announced.most_common(1)[0]
        if times > 1:
            raise InvalidInputError(f"tests: expected every name once, got {name!r} {times} times")
        rate = self.rate_of(check) / len(announced)
        return MappingProxyType(dict.fromkeys(sorted(announced), rate))
