"""A pytest plugin with one fixture, `assert_lossless`, that audits a sampler inside a test.

    def test_my_sampler(assert_lossless):
        assert_lossless(my_engine.sampler.verify, array="torch")

The false-alarm rate of the whole pytest run (``--spec-oracle-alpha``) is shared evenly by the collected tests
that use the fixture. Workers of pytest-xdist all collect the same tests, so the rates do not depend on them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_USERS = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the rate."""
    parser.getgroup("spec-oracle").addoption(
        "--spec-oracle-alpha",
        type=float,
        default=1e-6,
        help="false-alarm rate of all audits of the run, default: 1e-6",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests that share the rate."""
    session.config.stash[_USERS] = sum(
        "assert_lossless" in getattr(item, "fixturenames", ()) for item in session.items
    )


@pytest.fixture
def assert_lossless(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Return ``assert_lossless(*subjects, **options)``, which fails unless an audit would exit with 0.

    Subjects are those of `spec_oracle.audit.audit`; ``options`` are fields of `AuditOptions` except
    ``alpha``. The message is the report, counterexample included. One call a test, for any number of
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
        alpha = split(request.config.getoption("--spec-oracle-alpha"), request.config.stash[_USERS])
        chosen = AuditOptions(**{"counterexamples": tmp_path, **options, "alpha": alpha})
        report = audit(*subjects, options=chosen)
        if report.exit_code != 0:
            pytest.fail(AUDIT_FORMATS["text"](report), pytrace=False)

    return check
