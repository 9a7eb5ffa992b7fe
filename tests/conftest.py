"""What tests of audits share: inputs of failures as they were found, and less effort for right code."""

import os
import sys
from functools import cache

import pytest

from tests.efforts import module_of, set_effort, take_a_tenth

# Some engines import triton, which chooses its interpreter only once in a process: kernels need it on a CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

TENTH = (
    *("BATCH_MIXED_REQUESTS", "BATCH_REPEATS", "CALLS_REQUESTS"),
    *("SCALE_REQUESTS", "SCALE_TYPE_REQUESTS", "SHAPES_SHARE"),
    *("SHAPES_MOST_REQUESTS", "STREAMS_SEEDS"),
)
"""Numbers of samples, and shares of the budget, of which a tenth is taken."""

OF_WHAT_WAS_TRACED = ("CONFIRMING_SHARE", "ENGINE_CONFIRMING_SHARE")
"""Shares of the budget for samples that are compared with a distribution that was traced as right."""

OF_SMALLER_INPUTS = ("test_failing_inputs.py", "test_broken.py")


@pytest.fixture(scope="session")
def modules_of_tests():
    """Return the modules of all tests that were collected."""
    return {one for name, one in sys.modules.items() if name.rpartition(".")[2].startswith("test_")}


@pytest.fixture(autouse=True)
def effort_of_tests(request, modules_of_tests, monkeypatch):
    """Let audits take what tests need: one fixture for all of it, since it is set up for every test.

    At night audits take all samples, and for `full_effort` all but long completions. By day, too, samples
    that confirm a defect, or that decide where nothing could be traced, are not fewer.
    """
    names, is_of_day = {*request.fixturenames}, request.node.get_closest_marker("nightly") is None
    if request.path.name not in OF_SMALLER_INPUTS:
        keep_inputs_as_found(monkeypatch)
    look_for_names_in_one_module(monkeypatch, modules_of_tests - {getattr(request.node, "module", None)})
    if is_of_day:
        take_few_long_completions(monkeypatch)
    if is_of_day and "full_effort" not in names:
        take_a_tenth(monkeypatch, *OF_WHAT_WAS_TRACED)
    if is_of_day and "audit" in request.path.parts and not {"full_effort", "less_effort"} & names:
        # As many as ever confirm what was traced as wrong: right code that cannot be seen needs them.
        take_few_equal_requests(monkeypatch)
        take_a_tenth(monkeypatch, *TENTH)


def keep_inputs_as_found(monkeypatch):
    """Make no inputs of a failure smaller, which often takes longer than to find it.

    Tests of how that is done make them smaller, and so do commands, which audit in processes of their own.
    """
    set_effort(monkeypatch, SHRINK_SECONDS=0.0)


def look_for_names_in_one_module(monkeypatch, others):
    """Look for random functions that were imported by name in no module of tests but the one that runs.

    An audit looks through all modules of the user whenever it traces: hundreds, where all tests are run.
    """
    libraries = sys.modules.get("spec_oracle.exact.interception.libraries")
    if libraries is not None:
        users, kept = libraries._modules_of_user, {}

        def some():
            """Choose again where modules were imported: every traced run asks."""
            if (number := len(sys.modules)) not in kept:
                kept.clear()
                kept[number] = [one for one in users() if one not in others and may_sample_by_name(one)]
            return kept[number]

        monkeypatch.setattr(libraries, "_modules_of_user", some)


OURS = ("lab.", "tests.", "gpu_tests.")


def may_sample_by_name(module):
    """Whether a module is not ours, or has imported a function of a random library by name."""
    return not module.__name__.startswith(OURS) or not functions_by_id().isdisjoint(
        map(id, vars(module).values())
    )


def functions_by_id():
    """Return the ids of the functions of random libraries that were imported so far."""
    return _functions_of(tuple(name for name in ("random", "numpy.random", "torch") if name in sys.modules))


@cache
def _functions_of(names):
    values = [value for name in names for value in vars(sys.modules[name]).values()]
    return {id(one) for one in values if callable(one) and not isinstance(one, type)}


def take_few_long_completions(monkeypatch):
    """Take as many completions as find ordinary defects."""
    set_effort(monkeypatch, ENGINE_MIDDLE_COUNT=64, ENGINE_LONG_COUNT=16, ENGINE_LONG_BATCH_COUNT=60)
    set_effort(monkeypatch, CONVERSATIONS=4)
    set_effort(monkeypatch, ENGINE_LARGER_SHARE=0.1)


def take_few_equal_requests(monkeypatch):
    """Take few samples of equal requests, for dependence that shows only where requests differ."""
    from spec_oracle.audit import dependence

    monkeypatch.setattr(dependence, "CHAINS", (dependence.CallSizes((1, 2), 60),))
    monkeypatch.setattr(dependence, "BATCHES", (dependence.CallSizes((2,), 60),))


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
    """Take few samples of equal requests."""
    take_few_equal_requests(monkeypatch)


@pytest.fixture
def less_effort(monkeypatch, few_equal_requests):
    """Take a tenth of the samples, and hardly more shapes than have every value of every axis.

    For right code, which must pass at any number of them, and for defects that are found without samples.
    """
    take_a_tenth(monkeypatch, *TENTH, "CLAIM_SHARE")
    set_effort(monkeypatch, ENGINE_TV_WANTED=module_of("ENGINE_TV").ENGINE_TV)
