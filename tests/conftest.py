"""What tests of audits share: inputs of failures as they were found, and less effort for right code."""

import sys

import pytest

from tests.efforts import module_of, set_effort, take_a_tenth

TENTH = (
    *("BATCH_MIXED_REQUESTS", "BATCH_REPEATS", "CALLS_REQUESTS"),
    *("SCALE_REQUESTS", "SCALE_TYPE_REQUESTS", "SHAPES_SHARE"),
    *("SHAPES_MOST_REQUESTS", "STREAMS_SEEDS"),
)
"""Numbers of samples, and shares of the budget, of which a tenth is taken."""

OF_WHAT_WAS_TRACED = ("CONFIRMING_SHARE", "ENGINE_CONFIRMING_SHARE")
"""Shares of the budget for samples that are compared with a distribution that was traced as right."""

OF_SMALLER_INPUTS = ("test_failing_inputs.py", "test_broken.py")


@pytest.fixture(autouse=True)
def inputs_as_found(request, monkeypatch):
    """Make no inputs of a failure smaller, which often takes longer than to find it.

    Tests of how that is done keep it, and so do commands, which audit in processes of their own.
    """
    if request.path.name not in OF_SMALLER_INPUTS:
        monkeypatch.setattr("spec_oracle.audit.failing_inputs.SHRINK_SECONDS", 0.0)


@pytest.fixture(scope="session")
def modules_of_tests():
    """Return the modules of all tests that were collected."""
    return {one for name, one in sys.modules.items() if name.rpartition(".")[2].startswith("test_")}


@pytest.fixture(autouse=True)
def random_names_of_one_module(request, modules_of_tests, monkeypatch):
    """Look for random functions that were imported by name in no module of tests but the one that runs.

    An audit looks through all modules of the user whenever it traces: hundreds, where all tests are run.
    """
    libraries = sys.modules.get("spec_oracle.exact.interception.libraries")
    if libraries is None:
        return
    users, others = libraries._modules_of_user, modules_of_tests - {getattr(request.node, "module", None)}
    monkeypatch.setattr(libraries, "_modules_of_user", lambda: [one for one in users() if one not in others])


@pytest.fixture(autouse=True)
def few_samples_of_what_was_traced(request, monkeypatch):
    """Take a tenth of the samples that agree with a traced distribution, save at night; some tests take all.

    Samples that confirm a defect, or that decide where nothing could be traced, are not fewer.
    """
    if request.node.get_closest_marker("nightly") is None and "full_effort" not in request.fixturenames:
        take_a_tenth(monkeypatch, *OF_WHAT_WAS_TRACED)


@pytest.fixture(autouse=True)
def few_long_completions(request, monkeypatch):
    """Take as many completions as find ordinary defects, save at night; some tests set their own numbers."""
    if request.node.get_closest_marker("nightly") is None:
        set_effort(monkeypatch, ENGINE_MIDDLE_COUNT=64, ENGINE_LONG_COUNT=16, ENGINE_LONG_BATCH_COUNT=60)
        set_effort(monkeypatch, CONVERSATIONS=4)
        set_effort(monkeypatch, ENGINE_LARGER_SHARE=0.1)


@pytest.fixture(autouse=True)
def effort_of_day(request, monkeypatch):
    """In tests of audits, take a tenth of the samples, save at night and for `full_effort`.

    As many as ever confirm what was traced as wrong: right code that cannot be seen needs them.
    """
    is_asked_for = {"full_effort", "less_effort"} & {*request.fixturenames}
    is_of_day = request.node.get_closest_marker("nightly") is None
    if "audit" in request.path.parts and is_of_day and not is_asked_for:
        request.getfixturevalue("few_equal_requests")
        take_a_tenth(monkeypatch, *TENTH)


@pytest.fixture
def work_clock(monkeypatch):
    """Count work in place of time: seconds of a budget pay as many samples on a busy machine as on any.

    So a budget need be no larger than what the test is about takes. Two seconds of work take about one.
    """
    from lab.kill_matrix.work_clock import counted  # recipes are followed in a copy of the tree without lab

    with counted() as clock:
        yield clock
        monkeypatch.undo()  # before the clocks are: a test that replaced one would put this one back for all


@pytest.fixture
def full_effort():
    """Take all samples of a check: for defects, and for figures, that need them."""


@pytest.fixture
def few_equal_requests(monkeypatch):
    """Take few samples of equal requests, for dependence that shows only where requests differ."""
    from spec_oracle.audit import dependence

    monkeypatch.setattr(dependence, "CHAINS", (dependence.CallSizes((1, 2), 60),))
    monkeypatch.setattr(dependence, "BATCHES", (dependence.CallSizes((2,), 60),))


@pytest.fixture
def less_effort(monkeypatch, few_equal_requests):
    """Take a tenth of the samples, and hardly more shapes than have every value of every axis.

    For right code, which must pass at any number of them, and for defects that are found without samples.
    """
    take_a_tenth(monkeypatch, *TENTH, "CLAIM_SHARE")
    set_effort(monkeypatch, ENGINE_TV_WANTED=module_of("ENGINE_TV").ENGINE_TV)
