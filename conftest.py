"""Hypothesis profiles, and the line that says which tests were left out and how to run them."""

import gc
import os
from collections import Counter
from multiprocessing.context import BaseContext
from pathlib import Path

# Tests run side by side on toy arrays: threads of one worker would only wait for those of the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Hypothesis reads the constants in our sources before it draws: once for all audits, not anew in each.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(__file__).with_name(".hypothesis")))

from hypothesis import HealthCheck, settings

# Deterministic: a run differs from the next only if the code does. No deadline: machines differ.
_COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=15, **_COMMON)
settings.register_profile("nightly", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_LEFT_OUT = {
    "cuda": "make test-gpu",
    "lm": "make test-lm",
    "engines": "make test-engines",
    "servers": "make test-servers",
    "nightly": "make test-nightly",
    "vllm": "make test-vllm",
}
_counts: Counter[str] = Counter()


def pytest_sessionstart():
    """Have the fork server of audits import what any of them needs: the tests of a process share one."""
    given = BaseContext.set_forkserver_preload
    BaseContext.set_forkserver_preload = lambda self, names: given(self, [*names, "torch", "hypothesis"])


def pytest_deselected(items):
    """Count what the marker expression leaves out."""
    for item in items:
        _counts.update(marker for marker in _LEFT_OUT if item.get_closest_marker(marker))


def pytest_collection_finish():
    """Look no more for garbage among what was imported and collected: that takes some percent of a run."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    """Hand the counts of an xdist worker to the controller; every worker collects the same tests."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(_counts)


def pytest_testnodedown(node):
    """Take over the counts of a worker."""
    _counts.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - _counts)


def pytest_terminal_summary(terminalreporter):
    """Say what was not run, so that nobody takes it for passed."""
    for marker, count in sorted(_counts.items()):
        terminalreporter.write_line(
            f"NOT RUN: {count} tests marked {marker}; run them with `{_LEFT_OUT[marker]}`"
        )
