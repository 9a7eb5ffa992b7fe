"""Goodness of fit for what cannot be enumerated: tests, their power, and one error budget for a run.

The functions come in families, one member for each test, named after what they say:

* ``goodness_of_fit_by_<test>``: does this sample follow this law? Returns a `GoodnessOfFit`;
* ``smallest_detectable_tv_by_<test>`` and ``draws_needed_by_<test>``: the power, each the other's inverse;

with ``<test>`` one of ``g`` and ``e_process`` (``joint_e_process`` where power is meant). Rates are
probabilities: ``alpha`` of a false alarm, ``miss`` of none. Total variation (TV) is probability mass.

How many draws find a defect of total variation 0.01 at a false-alarm rate of one in a million? Do these draws
follow the law, and if not, which outcome is to blame?

>>> law = [0.5, 0.25, 0.25]
>>> draws_needed_by_g(0.01, law, alpha=1e-6)
171035
>>> fit = goodness_of_fit_by_g([51_000, 24_500, 24_500], law, alpha=1e-6)
>>> fit.passed, round(fit.smallest_detectable_tv, 4)
(False, 0.0131)
>>> [cell.outcome for cell in offending_cells([51_000, 24_500, 24_500], law, alpha=1e-6)]
[0]
"""

from spec_oracle.statistics.cells import Cells, pooled_cells, support_cells
from spec_oracle.statistics.e_process import EProcess, log_e_value
from spec_oracle.statistics.goodness_of_fit import (
    GoodnessOfFit,
    Homogeneity,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_g,
    homogeneity,
)
from spec_oracle.statistics.intervals import (
    OffendingCell,
    clopper_pearson,
    offending_cells,
    total_variation_at_least,
)
from spec_oracle.statistics.power import (
    DEFAULT_ALPHA,
    DEFAULT_MISS,
    draws_needed_by_g,
    draws_needed_by_joint_e_process,
    excluded_tv_by_g,
    smallest_detectable_tv_by_g,
    smallest_detectable_tv_by_homogeneity,
    smallest_detectable_tv_by_joint_e_process,
    split,
)

__all__ = [
    "DEFAULT_ALPHA",
    "DEFAULT_MISS",
    "Cells",
    "EProcess",
    "GoodnessOfFit",
    "Homogeneity",
    "OffendingCell",
    "clopper_pearson",
    "draws_needed_by_g",
    "draws_needed_by_joint_e_process",
    "excluded_tv_by_g",
    "goodness_of_fit_by_e_process",
    "goodness_of_fit_by_g",
    "homogeneity",
    "log_e_value",
    "offending_cells",
    "pooled_cells",
    "smallest_detectable_tv_by_g",
    "smallest_detectable_tv_by_homogeneity",
    "smallest_detectable_tv_by_joint_e_process",
    "split",
    "support_cells",
    "total_variation_at_least",
]
