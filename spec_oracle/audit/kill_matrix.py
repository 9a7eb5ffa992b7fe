"""The kill matrix: every check on every specimen and control, as proof that the suite can fail."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from spec_oracle.audit import exact_checks, sampled_checks
from spec_oracle.audit.bad_input import bad_input_of_function
from spec_oracle.audit.batch import batch_of_function, batch_of_system
from spec_oracle.audit.calls import calls_of_function
from spec_oracle.audit.draft_law import draft_law
from spec_oracle.audit.first_token import first_token_of_function, first_token_of_system
from spec_oracle.audit.inputs_kept import inputs_kept_by_function
from spec_oracle.audit.intercepted import intercepted_law
from spec_oracle.audit.length import length_of_function, length_of_system
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import SubjectRaisedError, as_plain
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.scale import scale_of_function
from spec_oracle.audit.streams import streams_of_function, streams_of_system
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.system_laws import calls_of_system, joint_of_system
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.interception import CannotFollowError, TooManyBranchesError, UnrepeatableError
from spec_oracle.specimens.specimen import Specimen
from spec_oracle.statistics import DEFAULT_ALPHA, ErrorBudget
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
LENGTH_INSTANCES = ("flat", "good-draft", "reversed")

Checks: TypeAlias = Mapping[str, Callable[[], CheckResult]]


@dataclass(frozen=True)
class MatrixOptions:
    """How to run: ``alpha`` for the whole matrix; ``budget`` seconds for each sampled joint law."""

    alpha: float = DEFAULT_ALPHA
    seed: int = 0
    budget: float = 5.0


@dataclass(frozen=True)
class MatrixRow:
    """What the checks said of one specimen, by column; ``seconds`` they took together."""

    specimen: Specimen
    results: Mapping[str, CheckResult]
    seconds: float

    @property
    def killers(self) -> tuple[str, ...]:
        """The checks that failed it, in the order of the columns; the yardstick does not count."""
        return tuple(
            column
            for column, result in self.results.items()
            if result.status is Status.FAILED and column != YARDSTICK
        )

    @property
    def missed(self) -> tuple[str, ...]:
        """The checks that were expected to find the defect and did not."""
        return tuple(check for check in self.specimen.killers if check not in self.killers)

    @property
    def as_expected(self) -> bool:
        """Whether a control stands, or a defect was found by a check at least."""
        return not self.killers if self.specimen.is_control else bool(self.killers)

    @property
    def total_variation(self) -> float | None:
        """The exact total variation where there is one, else the largest lower bound."""
        exact = self.results[EXACT].total_variation
        bounds = [r.total_variation for r in self.results.values() if r.total_variation is not None]
        return exact if exact is not None else max(bounds, default=None)

    @property
    def draws(self) -> int:
        """Requests drawn by all checks."""
        return sum(result.draws for result in self.results.values())


@dataclass(frozen=True)
class KillMatrix:
    """All rows of a run."""

    rows: tuple[MatrixRow, ...]
    options: MatrixOptions

    @property
    def survivors(self) -> tuple[MatrixRow, ...]:
        """Defects that no check found."""
        return tuple(row for row in self.rows if not row.specimen.is_control and not row.killers)

    @property
    def killed_controls(self) -> tuple[MatrixRow, ...]:
        """Controls that a check failed."""
        return tuple(row for row in self.rows if row.specimen.is_control and row.killers)

    @property
    def missed_by_yardstick(self) -> tuple[MatrixRow, ...]:
        """Defects that the first-token test does not see."""
        return tuple(
            row
            for row in self.rows
            if not row.specimen.is_control and row.results[YARDSTICK].status is not Status.FAILED
        )

    @property
    def exit_code(self) -> int:
        """0 if every defect was found and every control stands, else 1."""
        return 1 if self.survivors or self.killed_controls else 0


def kill_matrix(
    specimens: Iterable[Specimen],
    options: MatrixOptions | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> KillMatrix:
    """Run every check on every specimen, at one false-alarm rate for the whole matrix."""
    chosen, listed = options or MatrixOptions(), list(specimens)
    rows = []
    for position, specimen in enumerate(listed, start=1):
        row = matrix_row(specimen, chosen, chosen.alpha / len(listed))
        verdict = "stands" if not row.killers else f"killed by {', '.join(row.killers)}"
        progress(f"[{position}/{len(listed)}] {specimen.name}: {verdict} ({row.seconds:.1f} s)")
        rows.append(row)
    return KillMatrix(tuple(rows), chosen)


def matrix_row(specimen: Specimen, options: MatrixOptions, alpha: float) -> MatrixRow:
    """Run every check on one specimen, at a false-alarm rate of ``alpha`` for all of them."""
    started = time.perf_counter()
    checks = _checks_of(specimen, options, ErrorBudget(alpha))
    not_run = Status.NOT_RUN, f"not a check of a {specimen.kind}"
    results = {
        column: checks[column]() if column in checks else CheckResult(column, *not_run) for column in COLUMNS
    }
    return MatrixRow(specimen, results, time.perf_counter() - started)


def _checks_of(specimen: Specimen, options: MatrixOptions, budget: ErrorBudget) -> Checks:
    if specimen.system is not None:
        return _system_checks(specimen, options, budget)
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
    return {EXACT: partial(_exact, law_of, options.seed), **_function_checks(subject, options, budget)}


def _function_checks(subject: Subject, options: MatrixOptions, budget: ErrorBudget) -> Checks:
    seed = options.seed
    instances = panel(3, 3, 1, seed)
    pair = panel(3, 1, 1, seed)["flat"]
    # Two drafts, since uniforms may overlap along the draft; reversed rows, which reject often.
    neighbours = panel(2, 2, 1, seed)["reversed"]
    lengths = {name: instances[name] for name in LENGTH_INSTANCES}

    def joint() -> CheckResult:
        findings = sampled_checks.joint(
            subject, instances, alpha=budget.rate_of("joint"), budget=options.budget, seed=seed
        )
        return findings.check

    return {
        "joint": joint,
        "length": partial(length_of_function, subject, lengths, alpha=budget.rate_of("length"), seed=seed),
        "calls": partial(calls_of_function, subject, pair, alpha=budget.rate_of("calls"), seed=seed),
        "streams": partial(streams_of_function, subject, pair, alpha=budget.rate_of("streams"), seed=seed),
        "batch": partial(
            batch_of_function,
            subject,
            neighbours,
            instances["flat"],
            alpha=budget.rate_of("batch"),
            seed=seed,
        ),
        "bad-input": partial(bad_input_of_function, subject, instances["zeros"], seed=seed),
        "inputs-kept": partial(inputs_kept_by_function, subject, instances["flat"], seed=seed),
        "scale": partial(
            scale_of_function, subject, panel(3, 2, 1, seed)["flat"], alpha=budget.rate_of("scale"), seed=seed
        ),
        YARDSTICK: partial(
            first_token_of_function, subject, instances["flat"], alpha=budget.alpha, seed=seed
        ),
    }


def _system_checks(specimen: Specimen, options: MatrixOptions, budget: ErrorBudget) -> Checks:
    assert specimen.system is not None
    factory, seed = specimen.system, options.seed
    toys = panel(3, 2, 1, seed)
    instances = {name: toys[name].floats for name in SYSTEM_INSTANCES}
    flat = instances["flat"]

    def at(check: str) -> float:
        return budget.rate_of(check)

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
