"""The checks of the kill matrix: what is run on a specimen, on which toys, by column."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np

from spec_oracle.audit import exact_checks
from spec_oracle.audit.batch import batch_of_system
from spec_oracle.audit.draft_law import draft_law
from spec_oracle.audit.first_token import first_token_of_function, first_token_of_system
from spec_oracle.audit.function_checks import function_checks
from spec_oracle.audit.intercepted import intercepted_law
from spec_oracle.audit.length import length_of_system
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import SubjectRaisedError, as_plain
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampled_checks import screening
from spec_oracle.audit.streams import streams_of_system
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.system_laws import calls_of_system, joint_of_system
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.interception import CannotFollowError, TooManyBranchesError, UnrepeatableError
from spec_oracle.specimens.specimen import Specimen
from spec_oracle.statistics import ErrorBudget
from spec_oracle.toy import Instance

EXACT = "exact"
"""The exact tier: the law of one call, proved. All other columns are the sampling tier."""

YARDSTICK = "first-token"
"""The test that most projects have; it is shown for comparison and kills nothing."""

COLUMNS = (
    EXACT,
    "joint",
    "length",
    "calls",
    "draft-law",
    "streams",
    "batch",
    "bad-input",
    "inputs-kept",
    "scale",
    YARDSTICK,
)

EXACT_INSTANCES = ("flat", "peaked", "zeros")
SYSTEM_INSTANCES = ("flat", "good-draft", "reversed", "zeros")

Checks: TypeAlias = Mapping[str, Callable[[], CheckResult]]


def checks_of(specimen: Specimen, budget: ErrorBudget, seed: int) -> Checks:
    """Return the checks that a specimen allows, by column, at the rates of ``budget``."""
    if specimen.system is not None:
        return _system_checks(specimen, budget, seed)
    function = as_plain(specimen.verifier) if specimen.verifier is not None else specimen.function
    rule = specimen.rule
    subject = Subject(
        specimen.name,
        function=function,
        array=specimen.array,
        rule_at=None if rule is None else lambda _: rule,
    )
    if specimen.verifier is not None:
        law_of: Callable[[Instance], EmissionLaw] = partial(emission_law, specimen.verifier)
    else:
        law_of = partial(intercepted_law, subject)
    toys = panel(3, 3, 1, seed)
    return {
        EXACT: partial(_exact, law_of, seed),
        # The screening alone, whose number of draws does not depend on the pace of the machine.
        "joint": partial(screening, subject, toys, alpha=budget.rate_of("joint"), seed=seed),
        **function_checks(subject, budget, seed=seed),
        YARDSTICK: partial(first_token_of_function, subject, toys["flat"], alpha=budget.alpha, seed=seed),
    }


def _system_checks(specimen: Specimen, budget: ErrorBudget, seed: int) -> Checks:
    assert specimen.system is not None
    factory = specimen.system
    toys = panel(3, 2, 1, seed)
    instances = {name: toys[name].floats for name in SYSTEM_INSTANCES}
    flat, at = instances["flat"], budget.rate_of
    return {
        "joint": partial(joint_of_system, factory, instances, alpha=at("joint"), seed=seed),
        "length": partial(length_of_system, factory, instances, alpha=at("length"), seed=seed),
        "calls": partial(calls_of_system, factory, instances, alpha=at("calls"), seed=seed),
        "draft-law": partial(draft_law, factory, instances, alpha=at("draft-law"), seed=seed),
        "streams": partial(streams_of_system, factory, flat, alpha=at("streams"), seed=seed),
        "batch": partial(batch_of_system, factory, flat, alpha=at("batch"), seed=seed),
        YARDSTICK: partial(first_token_of_system, factory, flat, alpha=budget.alpha, seed=seed),
    }


def _exact(law_of: Callable[[Instance], EmissionLaw], seed: int) -> CheckResult:
    """Prove or disprove the law of one call; the largest total variation over the instances is reported."""
    toys, worst = panel(3, 3, 1, seed), 0.0
    for name in EXACT_INSTANCES:
        try:
            with np.errstate(all="ignore"):
                law = law_of(toys[name])
        except (CannotFollowError, TooManyBranchesError, UnrepeatableError, SubjectRaisedError) as error:
            return CheckResult(EXACT, Status.INCONCLUSIVE, str(error))
        except SpecOracleError as error:
            return CheckResult(EXACT, Status.FAILED, str(error))
        worst = max(worst, float(law.total_variation))
    status = Status.PASSED if worst <= exact_checks.Arithmetic().tolerance else Status.FAILED
    return CheckResult(EXACT, status, f"total variation {worst:.3g}", total_variation=worst)
