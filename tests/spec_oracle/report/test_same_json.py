"""The JSON of a few audits is, field by field and in this order, what it was when it was recorded.

    python -m tests.spec_oracle.report.test_same_json    record it anew, after a change that is meant

Budgets are amounts of work, so that nothing depends on the time. Times, versions, lines of files and numbers
that are rounding are left out.
"""

import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from lab.kill_matrix.golden_subjects import listed
from lab.kill_matrix.work_clock import CLOCKS, counted
from spec_oracle.audit.worker import start_method
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.report.audit_json import audit_to_json
from tests.strategies import at_night

FILE = Path(__file__).with_name("same_json.json")
SUBJECTS = (
    "rule token",
    "specimen always-accept",
    "specimen chain-token-rule-declared-block",
    "control ragged-batch",
    "server always-accept",
    "transcripts right",
)
"""Lossless, lossy with a counterexample and saved inputs, another rule than declared; an engine; servers."""

OF_DAY = tuple(name for name in SUBJECTS if name != "control ragged-batch")
"""The audit of the engine takes as long as three times all others."""

_OF_THE_MACHINE = (
    (re.compile(r'"(seconds|tool_version)": [^,\n]+'), r'"\1": null'),
    (re.compile(r"(?:[\w.~-]*/)*([\w-]+\.py):\d+"), r"\1:N"),
    (re.compile(r"\d(\.\d+)?e-(0[89]|[1-9]\d)"), "0"),
)


def audited(names):
    """Return the JSON text of each, by name."""
    found = {}
    real, slower = time.process_time, count(step=1000)
    for name in CLOCKS:  # a machine a thousand times slower reports the same
        setattr(time, name, lambda: real() + next(slower))
    for name in names:
        with counted() as clock:
            seed_all(0)
            data = audit_to_json(listed()[name](clock))
        text = json.dumps(_rounded(data), indent=1, ensure_ascii=False)
        for pattern, replacement in _OF_THE_MACHINE:
            text = pattern.sub(replacement, text)
        found[name] = text.splitlines()
    return found


def _rounded(value):
    """Return the data with numbers of nine digits."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def audited_apart(names=SUBJECTS):
    """Audit them in a process of their own: what others have cached changes nothing.

    Where there is a fork server it is that of all audits, which has imported the libraries.
    """
    with ProcessPoolExecutor(1, mp_context=start_method((), ())) as apart:
        return apart.submit(audited, names).result()


@pytest.mark.parametrize("names", [OF_DAY, *at_night((SUBJECTS,))], ids=len)
def test_the_json_of_reports_is_as_recorded(names):
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    assert [*recorded] == [*SUBJECTS]
    found = audited_apart(names)
    assert [*found] == [*names]
    for name, lines in found.items():
        assert lines == recorded[name], name


if __name__ == "__main__":
    FILE.write_text(json.dumps(audited_apart(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
