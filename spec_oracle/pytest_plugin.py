"""A pytest plugin: the fixture `assert_lossless`, and a list of checks to parametrise a test with.

    def test_my_sampler(assert_lossless):
        assert_lossless("my_engine.sampler:verify", array="torch")

    @pytest.mark.parametrize("check", checks_of("my_engine.sampler:verify", array="torch"))
    def test_each_check_of_my_sampler(check):
        check()

A subject is audited once a worker, by the first of its tests that runs, with the checks that were selected
(with pytest-xdist ``--dist loadscope`` keeps them on one). Tests run in the pytest process: code that crashes
or hangs is what ``spec-oracle audit`` is for, which also audits the subjects of a configuration and compares
them with a baseline.

The false-alarm rate of the run (``--spec-oracle-alpha``) is shared evenly by the subjects of `checks_of` and
by tests that use the fixture, and a subject's by its checks as in an audit. All that are collected count,
whatever ``-k``, ``-m`` or ``--deselect`` leave out: rates do not depend on the selection, nor on workers,
which all collect the same. Where pytest collects fewer (``--lf``, some files), each has a larger share.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spec_oracle.audit import AuditOptions, CheckResult, SubjectReport


_SHARERS = pytest.StashKey[int]()
"""How many subjects, and tests that use the fixture, share the false-alarm rate of the run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("spec-oracle").addoption(
        "--spec-oracle-alpha",
        type=float,
        default=1e-6,
        help="false-alarm rate of all audits of the run, default: 1e-6",
    )


def checks_of(subject: object, **options: Any) -> list[Any]:
    """Return the checks of a subject, to parametrise a test with; each is called without arguments.

    ``subject`` is one of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``, ``expected`` failures with their reasons among them. Those of the configuration in the working
    directory hold for a subject that it names; raises `InvalidInputError` for a mistake there.
    """
    from spec_oracle.audit.checks import CHECKS
    from spec_oracle.gate.configuration import Configuration, find_configuration

    found = find_configuration(Path.cwd())
    is_named = isinstance(subject, str) and subject in found.subjects
    chosen = (found if is_named else Configuration()).options_of(str(subject), **options)
    shared = _SharedAudit(subject, chosen)
    names = [name for name in CHECKS if chosen.checks is None or name in {*chosen.checks, "joint"}]
    return [pytest.param(SubjectCheck(shared, name), id=name) for name in names]


class _SharedAudit:
    """The audit of a subject with the checks that were ``selected``; ``options.alpha`` is its rate."""

    def __init__(self, subject: object, options: "AuditOptions") -> None:
        self.subject, self.options = subject, options
        self.selected: set[str] = set()
        self._report: SubjectReport | None = None

    def with_check(self, name: str) -> "SubjectReport":
        """Return the report, made when it is first asked for; errors as `audit`.

        A check of which no test was collected is selected late, and another report made.
        """
        from spec_oracle.audit import audit

        if self._report is None or name not in self.selected:
            self.selected.add(name)
            options = replace(self.options, checks=tuple(self.selected))
            (self._report,) = audit(self.subject, options=options).subjects
        return self._report


class SubjectCheck:
    """One check of one subject: calling it in a test passes, fails, skips, or fails as expected."""

    def __init__(self, shared: _SharedAudit, name: str) -> None:
        self.shared, self.name = shared, name

    def __repr__(self) -> str:
        """Show the check: pytest prints the arguments of tests that fail."""
        return f"<check {self.name}>"

    def __call__(self) -> None:
        """Let pytest know how the check ended: nothing that stays open passes."""
        from spec_oracle.audit import Status
        from spec_oracle.errors import SpecOracleError

        try:
            found = self.shared.with_check(self.name)
        except SpecOracleError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        result = next((check for check in found.checks if check.name == self.name), None)
        if result is None:
            pytest.skip(f"not a check of this kind: {found.kind}")
        if result.status is Status.FAILED and result.known:
            pytest.xfail(f"{result.known}: {result.detail}")  # goes on with --runxfail
        if result.status is Status.FAILED or not result.is_settled:
            pytest.fail(_shown(found, result), pytrace=False)
        if result.status is not Status.PASSED:
            pytest.skip(result.detail)


def _shown(found: "SubjectReport", result: "CheckResult") -> str:
    """Return what went wrong, which is the line of pytest's summary, and how to see it again."""
    from spec_oracle.report.audit_text import clause, failure_lines

    status = result.status.value.replace("-", " ")
    option = "add " * result.remarks.do.startswith("--")
    do = [f"do: {option}{result.remarks.do}"] if result.remarks.do else []
    first = f"{found.subject}: {result.name}: {status}: {clause(result)}"
    return "\n  ".join([first, *failure_lines(found, result), *do])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share the rate among all that were collected, before any are deselected."""
    subjects = {case.shared for case in map(_case_of, items) if case is not None}
    users = sum("assert_lossless" in getattr(item, "fixturenames", ()) for item in items)
    config.stash[_SHARERS] = max(len(subjects) + users, 1)
    for shared in subjects:
        shared.options = replace(shared.options, alpha=_alpha(config))


def _alpha(config: pytest.Config) -> float:
    """Return the false-alarm rate of each of those that share it."""
    from spec_oracle.statistics import split

    return split(config.getoption("--spec-oracle-alpha"), config.stash[_SHARERS])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which checks were selected."""
    for case in map(_case_of, session.items):
        if case is not None:
            case.shared.selected.add(case.name)


def _case_of(item: pytest.Item) -> SubjectCheck | None:
    """Return the check that a test is parametrised with, None for tests of something else."""
    call = getattr(item, "callspec", None)
    values = call.params.values() if call else ()
    return next((value for value in values if isinstance(value, SubjectCheck)), None)


@pytest.fixture
def assert_lossless(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``assert_lossless(*subjects, **options)``, which fails unless an audit would exit with 0.

    Subjects are those of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``. The message is the report, counterexample included; its instance is kept in the folder
    ``counterexamples`` of the project. One call a test, for any number of
    subjects: a second one would spend the test's rate again, and raises `InvalidInputError`.
    """
    calls = 0

    def check(*subjects: object, **options: Any) -> None:
        from spec_oracle.audit import AuditOptions, audit
        from spec_oracle.errors import InvalidInputError, SpecOracleError
        from spec_oracle.report import AUDIT_FORMATS
        from spec_oracle.report.reading import finding, first_what_is_open

        nonlocal calls
        calls += 1
        if calls > 1:
            raise InvalidInputError("subjects: expected one call of assert_lossless a test, with all of them")
        saved = {"counterexamples": request.config.rootpath / "counterexamples"}
        chosen = AuditOptions(**{**saved, **options, "alpha": _alpha(request.config)})
        try:
            report = audit(*subjects, options=chosen)
        except SpecOracleError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        if report.exit_code != 0:
            first = finding(next(iter(first_what_is_open(report))))  # the line of pytest's summary
            pytest.fail("\n\n".join(filter(None, [first, AUDIT_FORMATS["text"](report)])), pytrace=False)

    return check
