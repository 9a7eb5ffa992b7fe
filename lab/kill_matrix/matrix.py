"""The kill matrix: checks on every specimen and control, as proof that the suite can fail.

A control must pass every check. On a defect the checks run that must find it, and three others in turn, so
that the page shows which defects are seen by which kind of evidence at a fraction of the time.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from lab.kill_matrix.columns import COLUMNS, EXACT, YARDSTICK, columns_of
from lab.specimens.registry import specimens, survivors
from lab.specimens.specimen import REGISTERED, Specimen
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.statistics import DEFAULT_ALPHA, split
from spec_oracle.sweeps import renewed_quietly
from spec_oracle.threads import one_torch_thread

OTHERS = 3
"""How many checks run on a defect besides those that must find it."""

SAMPLING_MUST_FIND = 0.01
"""Total variation from which on the sampling tier alone has to find a defect of one call."""


@dataclass(frozen=True)
class MatrixRow:
    """What the checks said of one specimen, and the seconds that each took, by column."""

    specimen: Specimen
    results: Mapping[str, CheckResult]
    seconds_by_check: Mapping[str, float]

    @property
    def detected_by(self) -> tuple[str, ...]:
        """The checks that failed it, in the order of the columns, without the yardstick and `beside`."""
        ignored = {YARDSTICK, *self.specimen.beside}
        return tuple(
            column
            for column, result in self.results.items()
            if result.status is Status.FAILED and column not in ignored
        )

    @property
    def detected_by_samples(self) -> tuple[str, ...]:
        """The checks of the sampling tier that failed it."""
        return tuple(check for check in self.detected_by if check != EXACT)

    @property
    def seconds(self) -> float:
        """What all checks took together."""
        return sum(self.seconds_by_check.values())

    @property
    def sampling_seconds(self) -> float:
        """What the sampling tier took."""
        return sum(s for check, s in self.seconds_by_check.items() if check not in {EXACT, YARDSTICK})

    @property
    def missed(self) -> tuple[str, ...]:
        """The checks that were expected to find the defect and did not, of those that were run."""
        return tuple(
            check
            for check in self.specimen.detected_by
            if check not in self.detected_by and self.results[check].status is not Status.SKIPPED
        )

    @property
    def as_expected(self) -> bool:
        """Whether a control passes every check, or a check detects the defect, or it is on record."""
        if self.specimen.survives:
            return True
        return not self.detected_by if self.specimen.is_control else bool(self.detected_by)

    @property
    def total_variation(self) -> float | None:
        """The exact total variation where there is one, else the largest lower bound."""
        exact = self.results[EXACT].measured.total_variation
        found = [result.measured.total_variation for result in self.results.values()]
        bounds = [bound for bound in found if bound is not None]
        return exact if exact is not None else max(bounds, default=None)

    @property
    def draws(self) -> int:
        """Requests drawn by all checks."""
        return sum(result.measured.draws for result in self.results.values())


@dataclass(frozen=True)
class KillMatrix:
    """All rows of a run at ``alpha`` for the whole; ``command`` is the command line, where there was one."""

    rows: tuple[MatrixRow, ...]
    alpha: float
    seed: int
    command: str = ""

    @property
    def faulty(self) -> tuple[MatrixRow, ...]:
        """The rows of defects that must be found."""
        return tuple(row for row in self.rows if row.specimen.detected_by)

    @property
    def surviving(self) -> tuple[MatrixRow, ...]:
        """The rows of defects that are on record as survivors of an audit at its defaults."""
        return tuple(row for row in self.rows if row.specimen.survives)

    @property
    def controls(self) -> tuple[MatrixRow, ...]:
        """The rows of lossless code."""
        return tuple(row for row in self.rows if row.specimen.is_control)

    @property
    def survivors(self) -> tuple[MatrixRow, ...]:
        """Defects that no check found, although they must be found."""
        return tuple(row for row in self.faulty if not row.detected_by)

    @property
    def killed_controls(self) -> tuple[MatrixRow, ...]:
        """Controls that a check failed."""
        return tuple(row for row in self.controls if row.detected_by)

    @property
    def missed_by_sampling(self) -> tuple[MatrixRow, ...]:
        """Defects of `SAMPLING_MUST_FIND` or more that only the exact tier found."""
        sampled = (row for row in self.faulty if row.specimen.kind != "rule" and not row.detected_by_samples)
        return tuple(row for row in sampled if (row.total_variation or 0.0) >= SAMPLING_MUST_FIND)

    @property
    def missed_by_yardstick(self) -> tuple[MatrixRow, ...]:
        """Defects that the first-token test does not see."""
        return tuple(row for row in self.faulty if row.results[YARDSTICK].status is not Status.FAILED)

    @property
    def exit_code(self) -> int:
        """0 if every defect that must be found was, and every control passes, else 1."""
        return 1 if self.survivors or self.killed_controls else 0


def kill_matrix(
    listed: Iterable[Specimen],
    progress: Callable[[str, int, int], None] = lambda *_: None,
    *,
    alpha: float = DEFAULT_ALPHA,
    seed: int = 0,
    jobs: int = 1,
) -> KillMatrix:
    """Run checks on every specimen, at one false-alarm rate for the whole matrix.

    With several ``jobs`` they are run in as many processes; what comes out is the same.
    """
    from joblib import Parallel, delayed

    every, rows = list(listed), []
    share = split(alpha, len(every))
    with renewed_quietly():
        found = Parallel(n_jobs=jobs, return_as="generator")(
            delayed(_checked)(one.name if REGISTERED.get(one.name) is one else one, share, seed)
            for one in every
        )
        # Only what was found comes back from a process: the state of a specimen may be random numbers.
        for position, (specimen, (results, seconds)) in enumerate(zip(every, found, strict=True), start=1):
            row = MatrixRow(specimen, results, seconds)
            verdict = "passes" if not row.detected_by else f"detected by {', '.join(row.detected_by)}"
            progress(f"{specimen.name}: {verdict} ({row.seconds:.1f} s)", position, len(every))
            rows.append(row)
    return KillMatrix(tuple(rows), alpha, seed)


def _checked(
    one: Specimen | str, alpha: float, seed: int
) -> tuple[Mapping[str, CheckResult], Mapping[str, float]]:
    """Run the checks of one specimen, at a rate of ``alpha`` for all of them; return results and seconds.

    Other processes import it by its name: of code that is sent, the files are not known that say whose it is.
    """
    specimen = {**specimens(), **specimens(num_paths=2), **survivors()}[one] if isinstance(one, str) else one
    columns = columns_of(specimen, alpha, seed)
    results: dict[str, CheckResult] = {}
    seconds: dict[str, float] = {}
    for column in COLUMNS:
        absent = f"not a check of a {specimen.kind}" if column not in columns else "not run on this specimen"
        results[column] = CheckResult(column, Status.NOT_APPLICABLE, absent)
    with one_torch_thread():
        for column in chosen_columns(specimen, [column for column in COLUMNS if column in columns]):
            started = time.perf_counter()
            try:
                results[column] = columns[column]()
            except Exception as error:
                error.add_note(f"in the check {column!r} of the specimen {specimen.name!r}")
                raise
            seconds[column] = time.perf_counter() - started
    return results, seconds


def chosen_columns(specimen: Specimen, columns: Sequence[str]) -> list[str]:
    """Return which of the ``columns`` that apply are run on a specimen: all of them unless it is a defect.

    On a defect these are the exact tier, the first-token test, `joint`, the checks that must find it, and
    `OTHERS` more, from a place that depends on its name.
    """
    if not specimen.detected_by:
        return list(columns)
    needed = {EXACT, YARDSTICK, "joint", *specimen.detected_by}
    rest = [column for column in columns if column not in needed]
    start = crc32(specimen.name.encode()) % max(len(rest), 1)
    needed.update((rest[start:] + rest[:start])[:OTHERS])
    return [column for column in columns if column in needed]
