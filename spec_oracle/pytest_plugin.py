"""A pytest plugin: a test item for each check of each subject, and the fixture `assert_lossless`.

Subjects are named in the project's configuration (`spec_oracle.gate.configuration`), in the pytest option
``spec_oracle_subjects``, or in a test:

    @pytest.mark.parametrize("check", checks_of("my_engine.sampler:verify", array="torch"))
    def test_my_sampler(check):
        check()

Named in a file, a check is an item of that file: ``pytest pyproject.toml -k scale``. What the checks of a
subject share is computed once a worker (with pytest-xdist ``--dist loadscope`` keeps them on one). Items run
in the pytest process: code that crashes or hangs is what ``spec-oracle audit`` is for.

The false-alarm rate of the run (``--spec-oracle-alpha``, else the configuration's) is shared evenly by
subjects and by tests that use the fixture, and a subject's by its checks as in an audit. All that are
collected count, and every configured subject, whatever ``-k``, ``-m`` or ``--deselect`` leave out: rates do
not depend on the selection, nor on workers, which all collect the same.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spec_oracle.audit.results import CheckResult
    from spec_oracle.gate.cases import SharedAudit
    from spec_oracle.gate.configuration import Configuration


@dataclass
class _Gate:
    """What the run audits: subjects by the file that names them, and how many share its rate."""

    alpha: float
    seed: int = 0
    files: dict[Path, list["SharedAudit"]] = field(default_factory=dict)
    sharers: int = 1

    @property
    def subjects(self) -> list["SharedAudit"]:
        return [shared for listed in self.files.values() for shared in listed]


_GATE = pytest.StashKey[_Gate]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.getgroup("spec-oracle").addoption(
        "--spec-oracle-alpha",
        type=float,
        help="false-alarm rate of all audits of the run, default: the configuration's, else 1e-6",
    )
    parser.addini(
        "spec_oracle_subjects", "subjects to audit, an item for each check", type="args", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read which subjects the project names; with ``testpaths`` their files are collected too."""
    named = config.getini("spec_oracle_subjects")
    given = config.getoption("--spec-oracle-alpha")
    if not named and not _is_configured(config.rootpath):
        config.stash[_GATE] = _Gate(1e-6 if given is None else given)
        return
    try:
        from spec_oracle.errors import InvalidInputError
        from spec_oracle.gate.configuration import find_configuration
    except ImportError as error:
        raise pytest.UsageError(str(error)) from None
    try:
        found = find_configuration(config.rootpath)
        options = found.options_of("", **({} if given is None else {"alpha": given}))
    except InvalidInputError as error:
        raise pytest.UsageError(str(error)) from None
    gate = config.stash[_GATE] = _Gate(options.alpha, options.seed)
    for file, names in ((found.file, found.subjects), (config.inipath, named)):
        if file is not None and names:
            gate.files.setdefault(file, []).extend(_shared(found, name) for name in names)
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args.extend(map(str, gate.files))


def _is_configured(root: Path) -> bool:
    """Whether there is anything to read: most projects have pytest plugins that do not concern them."""
    project = root / "pyproject.toml"
    is_in_project = project.is_file() and "[tool.spec-oracle]" in project.read_text(encoding="utf-8")
    return is_in_project or (root / "spec-oracle.toml").is_file()


def _shared(found: "Configuration", name: str) -> "SharedAudit":
    from spec_oracle.gate.cases import SharedAudit

    return SharedAudit(name, found.options_of(name), found.baseline)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what is audited, and at which rate."""
    gate = config.stash[_GATE]
    if not gate.files:
        return None
    from spec_oracle.version import tool_version

    files = ", ".join(file.name for file in gate.files)
    return (
        f"spec-oracle {tool_version()}: {len(gate.subjects)} subjects of {files}, "
        f"alpha {gate.alpha:g}, seed {gate.seed}"
    )


def checks_of(subject: Any, **options: Any) -> list[Any]:
    """Return the checks of a subject, to parametrise a test with; each is called without arguments.

    ``subject`` is one of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``, ``expected`` failures with their reasons among them.
    """
    from spec_oracle.audit import AuditOptions
    from spec_oracle.gate.cases import SharedAudit

    shared = SharedAudit(subject, AuditOptions(**{"counterexamples": Path("counterexamples"), **options}))
    return [pytest.param(Case(shared, name), id=name) for name in shared.check_names()]


class Case:
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
        """Return what went wrong and how to see it again."""
        from spec_oracle.report.audit_text import again_lines, clause, counterexample_text

        status = result.status.value.replace("-", " ")
        found = self.shared.counterexample() if self.name == "joint" else None
        lines = again_lines(result) or [f"reproduce: {self.shared.reproduce(self.name)}"]
        again = "\n".join(f"  {line}" for line in lines)
        shown = again if found is None else counterexample_text(found)
        return f"{self.shared.subject.name}: {result.name}: {status}: {clause(result)}\n{shown}"

    def as_json(self) -> str | None:
        """Return the result as JSON text, for the summary; None where there is none."""
        if self.name not in self.shared.results:
            return None
        result = self.shared.result(self.name)
        figures = {"subject": self.shared.subject.name, **self.shared.figures()}
        return json.dumps({**figures, "column": _column(result.status.value, settled=result.is_settled)})


class CheckItem(pytest.Item):
    """A check of a subject that a file names."""

    case: Case

    def runtest(self) -> None:
        """Run the check."""
        self.case()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where it comes from."""
        return self.path, None, f"{self.case.shared.given}: {self.name}"


class SubjectChecks(pytest.Collector):
    """The checks of a subject."""

    shared: "SharedAudit"

    def collect(self) -> Iterator[CheckItem]:
        """Yield an item a check."""
        for name in self.shared.check_names():
            item = CheckItem.from_parent(self, name=name)
            item.case = Case(self.shared, name)
            yield item


class SubjectsFile(pytest.File):
    """A file that names subjects."""

    def collect(self) -> Iterator[SubjectChecks]:
        """Yield the subjects."""
        for shared in self.config.stash[_GATE].files[self.path]:
            node = SubjectChecks.from_parent(self, name=str(shared.given))
            node.shared = shared
            yield node


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SubjectsFile | None:
    """Collect the files that name subjects."""
    is_ours = file_path in parent.config.stash[_GATE].files
    return SubjectsFile.from_parent(parent, path=file_path) if is_ours else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share the rate among all that were collected, before any are deselected."""
    gate = config.stash[_GATE]
    in_tests = {case.shared for case in map(_case_of, items) if case is not None}
    subjects = in_tests.union(gate.subjects)
    users = sum("assert_lossless" in getattr(item, "fixturenames", ()) for item in items)
    gate.sharers = max(len(subjects) + users, 1)
    if not subjects:
        return
    from spec_oracle.statistics import split

    for shared in subjects:
        shared.alpha = split(gate.alpha, gate.sharers)


def _case_of(item: pytest.Item) -> Case | None:
    """Return the check that an item runs, None for tests of something else."""
    if isinstance(item, CheckItem):
        return item.case
    call = getattr(item, "callspec", None)
    return next((value for value in call.params.values() if isinstance(value, Case)), None) if call else None


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
    from spec_oracle.report.table import short, text_table

    rows: dict[str, tuple[str, ...]] = {}
    counts: dict[str, Counter[str]] = {}
    for one in results:
        name = one["subject"]
        numbers = (short(one.get(key), digits) for key, digits in _FIGURES.items())
        rows[name] = (name, one.get("evidence", "-"), *numbers)
        counts.setdefault(name, Counter())[one["column"]] += 1
    table = [(*row, *(str(counts[name][column]) for column in _COLUMNS)) for name, row in rows.items()]
    head = ("subject", "evidence", "TV", "detects TV", "tokens/call", *_COLUMNS)
    gate = terminalreporter.config.stash[_GATE]
    terminalreporter.section(f"spec-oracle, alpha {gate.alpha:g}")
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
        from spec_oracle.statistics import split

        nonlocal calls
        calls += 1
        if calls > 1:
            raise InvalidInputError("subjects: expected one call of assert_lossless a test, with all of them")
        gate, folder = request.config.stash[_GATE], request.config.rootpath / "counterexamples"
        alpha = split(gate.alpha, gate.sharers)
        chosen = AuditOptions(**{"counterexamples": folder, **options, "alpha": alpha})
        report = audit(*subjects, options=chosen)
        if report.exit_code != 0:
            pytest.fail(AUDIT_FORMATS["text"](report), pytrace=False)

    return check
