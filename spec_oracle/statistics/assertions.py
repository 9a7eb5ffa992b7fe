"""Goodness of fit as assertions, for use in tests: ``assert_law_by_<test>``.

Each raises `LawRejectedError` if the draws contradict the law, however few they are. An assertion that holds
must also mean something: if the draws do not suffice to find a defect of total variation ``detect_tv`` with
probability 1 - ``miss``, `InvalidInputError` is raised instead of passing. Otherwise the result is returned.
"""

import numpy.typing as npt

from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.statistics.e_process import EProcess
from spec_oracle.statistics.goodness_of_fit import (
    GoodnessOfFit,
    goodness_of_fit_by_chi_square,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_finite_sample_g,
    goodness_of_fit_by_g,
    goodness_of_fit_by_total_variation,
)
from spec_oracle.statistics.power import DEFAULT_MISS


class LawRejectedError(SpecOracleError, AssertionError):
    """Draws contradict the law they should follow; ``result`` holds the evidence."""

    def __init__(self, result: GoodnessOfFit) -> None:
        super().__init__(str(result))
        self.result = result


def assert_law_by_chi_square(
    counts: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    detect_tv: float,
    miss: float = DEFAULT_MISS,
) -> GoodnessOfFit:
    """Assert by Pearson's test that counts int [V] follow a law [V]."""
    return _asserted(goodness_of_fit_by_chi_square(counts, probabilities, alpha=alpha, miss=miss), detect_tv)


def assert_law_by_g(
    counts: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    detect_tv: float,
    miss: float = DEFAULT_MISS,
) -> GoodnessOfFit:
    """Assert by the G test that counts int [V] follow a law [V]."""
    return _asserted(goodness_of_fit_by_g(counts, probabilities, alpha=alpha, miss=miss), detect_tv)


def assert_law_by_finite_sample_g(
    counts: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    detect_tv: float,
    miss: float = DEFAULT_MISS,
) -> GoodnessOfFit:
    """Assert by the finite-sample G test that counts int [V] follow a law [V]."""
    return _asserted(
        goodness_of_fit_by_finite_sample_g(counts, probabilities, alpha=alpha, miss=miss), detect_tv
    )


def assert_law_by_total_variation(
    counts: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    detect_tv: float,
    miss: float = DEFAULT_MISS,
) -> GoodnessOfFit:
    """Assert by the observed total variation that counts int [V] follow a law [V]."""
    return _asserted(
        goodness_of_fit_by_total_variation(counts, probabilities, alpha=alpha, miss=miss), detect_tv
    )


def assert_law_by_e_process(
    process: EProcess, *, alpha: float, detect_tv: float, miss: float = DEFAULT_MISS
) -> GoodnessOfFit:
    """Assert that the samples behind an e-process follow their laws, at any time of one's choosing."""
    return _asserted(goodness_of_fit_by_e_process(process, alpha=alpha, miss=miss), detect_tv)


def _asserted(result: GoodnessOfFit, detect_tv: float) -> GoodnessOfFit:
    if not result.passed:
        raise LawRejectedError(result)
    if result.smallest_detectable_tv > detect_tv:
        raise InvalidInputError(
            f"detect_tv: {result.draws} draws find a total variation of {result.smallest_detectable_tv:.3g} "
            f"at best by {result.test}, got {detect_tv:.3g}; draw more"
        )
    return result
