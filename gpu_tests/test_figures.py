"""The table and the page: what was run, what was not, and what failed, all of it named."""

import json

import pytest

from gpu_tests.figures import Figures, markdown, text
from lab.benchmarks.gpu_kit.page import gather, lines

ROW = {
    "rule": "token",
    "tokens_per_call": 2.5,
    "expected": 2.51,
    "optimum": None,
    "verification_ms": 3.0,
    "share": 0.25,
    "call_ms": 12.0,
    "rows_gb": 0.5,
    "peak_gb": None,
    "detected_tv": 0.09,
    "detected_length": 0.3,
    "tokens": 4608,
    "problems": [],
}
PLANTED = {"defect": "always accepted", "found": [], "log_e": 1.0, "tokens_per_call": 5.0}


def figures():
    found = Figures()
    assert found.add([("rules", ROW), ("planted", PLANTED), ("texts", {"token": {"seeds": "equal"}})])
    assert found.add([("rules", {**ROW, "rule": "block", "problems": ["tokens contradict"]})])
    assert not found.add([("seconds", 1.0)])
    return found


def test_the_table_names_failures_and_defects_not_found():
    shown = "\n".join(markdown(figures().data()))
    assert (
        "| token | 2.500 | 2.510 | - | 3.0 | 25 % | 12.0 | 0.50 | - | 0.090 | 0.300 | 4,608 | right |"
        in shown
    )
    assert "| 4,608 | WRONG |" in shown
    assert "| always accepted | NOT FOUND | 1 | 5.000 |" in shown
    assert "| token | equal |" in shown
    printed = "\n".join(text(figures().data()))
    assert "WRONG" in printed
    assert "NOT FOUND" in printed


@pytest.fixture
def work(tmp_path):
    figures().write(tmp_path / "float32")
    ended = ("suite float32\tdone\t90", "compiled Triton kernels\tnot run: there is no GPU\t0")
    (tmp_path / "parts.tsv").write_text("\n".join(ended) + "\n")
    (tmp_path / "float32.xml").write_text(
        '<testsuites><testsuite tests="2" failures="1" errors="0" skipped="0" time="1.5">'
        '<testcase name="a"/><testcase name="b"><failure message="tokens contradict"/></testcase>'
        "</testsuite></testsuites>"
    )
    return tmp_path


def test_the_page_names_parts_that_did_not_run_and_tests_that_failed(work):
    page = "\n".join(lines(json.loads(json.dumps(gather(work)))))
    assert "| suite float32 | done | 90 | 2 | 1 |" in page
    assert "| compiled Triton kernels | not run: there is no GPU | 0 | - | - |" in page
    assert "* FAILED (float32): `b`: tokens contradict" in page
    assert "## Rules and planted defects, float32" in page
