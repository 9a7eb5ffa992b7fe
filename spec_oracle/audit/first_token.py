"""The naive test, as a yardstick: chi-square of the first token that one call emits.

This is what most projects have, and more: a toy with other rows after every prefix, and drafts drawn by the
system itself.
"""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.plain import ContractError, SubjectRaisedError, call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.texts import decoded, unseeded
from spec_oracle.statistics import goodness_of_fit_by_chi_square
from spec_oracle.systems.contract import SystemFactory
from spec_oracle.toy import Instance

DRAWS = 5000


def first_token_of_function(subject: Subject, instance: Instance, *, alpha: float, seed: int) -> CheckResult:
    """Test the first token of a function."""
    drafts = sampled_drafts(instance, DRAWS, checks_own_rng(seed))
    try:
        tokens = call_plain(subject, drafts, make_generator(subject.array, seed)).tokens[:, 0]
    except ContractError as error:
        return CheckResult("first-token", Status.FAILED, str(error), alpha, DRAWS)
    except SubjectRaisedError as error:
        return CheckResult("first-token", Status.INCONCLUSIVE, str(error), alpha)
    return _tested(tokens, instance, alpha)


def first_token_of_system(
    factory: SystemFactory, instance: Instance, *, alpha: float, seed: int
) -> CheckResult:
    """Test the first token of a system."""
    system = factory(instance, seed)
    try:
        _, steps = decoded(system, system.start(unseeded(DRAWS)), DRAWS, 1)
    except ContractError as error:
        return CheckResult("first-token", Status.FAILED, str(error), alpha, DRAWS)
    return _tested(steps[0].tokens[:, 0], system.instance, alpha)


def _tested(tokens: NDArray[np.int64], instance: Instance, alpha: float) -> CheckResult:
    law = instance.floats.target.conditional(())
    fit = goodness_of_fit_by_chi_square(np.bincount(tokens, minlength=len(law)), law, alpha=alpha)
    status = Status.PASSED if fit.passed else Status.FAILED
    return CheckResult("first-token", status, str(fit), alpha, DRAWS)
