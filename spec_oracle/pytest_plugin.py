"""A pytest plugin: the fixture `assert_lossless`, and a list of checks to parametrise a test with.

    def test_my_sampler(assert_lossless):
        assert_lossless("my_engine.sampler:verify", array="torch")

    @pytest.mark.parametrize("check", checks_of("my_engine.sampler:verify", array="torch"))
    def test_each_check_of_my_sampler(check):
        check()

What the checks of a subject share is computed once a worker (with pytest-xdist ``--dist loadscope`` keeps
them on one). Tests run in the pytest process: code that crashes or hangs is what ``spec-oracle audit`` is
for, which also audits the subjects of a configuration.

The false-alarm rate of the run (``--spec-oracle-alpha``) is shared evenly by the subjects of `checks_of` and
by tests that use the fixture, and a subject's by its checks as in an audit. All that are collected count,
whatever ``-k``, ``-m`` or ``--deselect`` leave out: rates do not depend on the selection, nor on workers,
which all collect the same. Where pytest collects fewer (``--lf``, some files), each has a larger share.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spec_oracle.audit.results import CheckResult
    from spec_oracle.gate.cases import SharedAudit


@dataclass
class _Rate:
    """The false-alarm rate of the run, and how many subjects and tests share it."""

    alpha: float
    sharers: int = 1


_RATE = pytest.StashKey[_Rate]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("spec-oracle").addoption(
        "--spec-oracle-alpha",
        type=float,
        default=1e-6,
        help="false-alarm rate of all audits of the run, default: 1e-6",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the rate of the run."""
    config.stash[_RATE] = _Rate(config.getoption("--spec-oracle-alpha"))


def checks_of(subject: Any, **options: Any) -> list[Any]:
    """Return the checks of a subject, to parametrise a test with; each is called without arguments.

    ``subject`` is one of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``, ``expected`` failures with their reasons among them. Those of the configuration in the working
    directory hold for a subject that it names; raises `InvalidInputError` for a mistake there.
    """
    from spec_oracle.gate.cases import SharedAudit
    from spec_oracle.gate.configuration import Configuration, find_configuration

    found = find_configuration(Path.cwd())
    is_named = isinstance(subject, str) and subject in found.subjects
    chosen = (found if is_named else Configuration()).options_of(str(subject), **options)
    shared = SharedAudit(subject, chosen)
    return [pytest.param(SubjectCheck(shared, name), id=name) for name in shared.check_names()]


class SubjectCheck:
    """One check of one subject: calling it in a test passes, fails, skips, or fails as expected."""

    def __init__(self, shared: "SharedAudit", name: str) -> None:
        self.shared, self.name = shared, name

    def __repr__(self) -> str:
        """Show the check: pytest prints the arguments of tests that fail."""
        return f"<check {self.name}>"

    def __call__(self) -> None:
        """Run the check, and let pytest know how it ended: nothing that stays open passes."""
        from spec_oracle.audit import Status
        from spec_oracle.errors import SpecOracleError

        try:
            result = self.shared.result(self.name)
        except SpecOracleError as error:
            pytest.fail(str(error), pytrace=False)
        if result.status is Status.FAILED and result.known:
            pytest.xfail(f"{result.known}: {result.detail}")  # goes on with --runxfail
        if result.status is Status.FAILED or not result.is_settled:
            pytest.fail(self._shown(result), pytrace=False)
        if result.status is not Status.PASSED:
            pytest.skip(result.detail)

    def _shown(self, result: "CheckResult") -> str:
        """Return what went wrong, which is the line of pytest's summary, and how to see it again."""
        from spec_oracle.report.audit_text import again_lines, clause, counterexample_lines

        status = result.status.value.replace("-", " ")
        found = self.shared.counterexample() if self.name == "joint" else None
        shown, again = counterexample_lines(found) if found else ([], again_lines(result))
        place = self.shared.subject.place
        lines = [
            *shown[:1],
            *([f"in: {place}"] if place else []),
            *(again or [f"reproduce: {self.shared.reproduce(self.name)}"]),
            *shown[1:],
            *([f"do: {result.remarks.do}"] if result.remarks.do else []),
        ]
        first = f"{self.shared.subject.name}: {result.name}: {status}: {clause(result)}"
        return "\n  ".join([first, *lines])

    def as_json(self) -> str | None:
        """Return the result as JSON text, for the summary; None where there is none."""
        if self.name not in self.shared.results:
            return None
        result = self.shared.result(self.name)
        figures = {"subject": self.shared.subject.name, **self.shared.figures()}
        return json.dumps({**figures, "column": _column(result.status.value, settled=result.is_settled)})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share the rate among all that were collected, before any are deselected."""
    rate, subjects = config.stash[_RATE], {case.shared for case in map(_case_of, items) if case is not None}
    users = sum("assert_lossless" in getattr(item, "fixturenames", ()) for item in items)
    rate.sharers = max(len(subjects) + users, 1)
    if not subjects:
        return
    from spec_oracle.statistics import split

    for shared in subjects:
        shared.alpha = split(rate.alpha, rate.sharers)


def _case_of(item: pytest.Item) -> SubjectCheck | None:
    """Return the check that a test is parametrised with, None for tests of something else."""
    call = getattr(item, "callspec", None)
    return (
        next((value for value in call.params.values() if isinstance(value, SubjectCheck)), None)
        if call
        else None
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Hang the result on the report, as a string: so it travels from a worker, and not into JUnit files."""
    report = yield
    case = _case_of(item)
    if case is not None and call.when == "call":
        report.spec_oracle = case.as_json()
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each subject."""
    listed = [report for reports in terminalreporter.stats.values() for report in reports]
    results = [json.loads(text) for report in listed if (text := getattr(report, "spec_oracle", None))]
    if not results:
        return
    from spec_oracle.report.reading import EVIDENCE_WORDS
    from spec_oracle.report.table import short, text_table

    rows: dict[str, tuple[str, ...]] = {}
    counts: dict[str, Counter[str]] = {}
    for one in results:
        name = one["subject"]
        numbers = (short(one.get(key), digits) for key, digits in _FIGURES.items())
        rows[name] = (name, EVIDENCE_WORDS.get(one.get("evidence"), "-"), *numbers)
        counts.setdefault(name, Counter())[one["column"]] += 1
    table = [(*row, *(str(counts[name][column]) for column in _COLUMNS)) for name, row in rows.items()]
    head = ("subject", "evidence", "TV", "detects TV", "tokens/call", *_COLUMNS)
    terminalreporter.section(f"spec-oracle, alpha {terminalreporter.config.stash[_RATE].alpha:g}")
    terminalreporter.write_line(text_table(head, table, right=range(2, len(head))))


_FIGURES = {"total_variation": 2, "smallest_detectable_tv": 2, "block_efficiency": 4}
_COLUMNS = ("passed", "failed", "expected", "open", "n/a")


def _column(status: str, *, settled: bool) -> str:
    """Return under which heading a result counts."""
    if status == "failed":
        return "expected" if settled else "failed"
    if not settled:
        return "open"
    return "passed" if status == "passed" else "n/a"


@pytest.fixture
def assert_lossless(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``assert_lossless(*subjects, **options)``, which fails unless an audit would exit with 0.

    Subjects are those of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``. The message is the report, counterexample included; its instance is kept in the folder
    ``counterexamples`` of the project. One call a test, for any number of
    subjects: a second one would spend the test's rate again, and raises `InvalidInputError`.
    """
    calls = 0

    def check(*subjects: Any, **options: Any) -> None:
        from spec_oracle.audit import AuditOptions, audit
        from spec_oracle.errors import InvalidInputError
        from spec_oracle.report import AUDIT_FORMATS
        from spec_oracle.report.reading import finding, first_what_is_open
        from spec_oracle.statistics import split

        nonlocal calls
        calls += 1
        if calls > 1:
            raise InvalidInputError("subjects: expected one call of assert_lossless a test, with all of them")
        rate, folder = request.config.stash[_RATE], request.config.rootpath / "counterexamples"
        alpha = split(rate.alpha, rate.sharers)
        chosen = AuditOptions(**{"counterexamples": folder, **options, "alpha": alpha})
        report = audit(*subjects, options=chosen)
        if report.exit_code != 0:
            first = finding(next(iter(first_what_is_open(report))))  # the line of pytest's summary
            pytest.fail("\n\n".join(filter(None, [first, AUDIT_FORMATS["text"](report)])), pytrace=False)

    return check
