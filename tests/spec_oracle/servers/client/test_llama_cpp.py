"""A real server: every mode of llama.cpp that needs no other weights gets the verdict that it deserves."""

import pytest

from lab.benchmarks.llama_cpp import RUNS, audited, models
from spec_oracle.audit import Status, SubjectVerdict
from tests.subjects import checks_of

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    models(path)
    return path


@pytest.mark.parametrize("run", RUNS)
def test_a_mode_has_the_law_of_its_model(run, folder):
    found = audited(run, folder, detect=0.1, budget=600.0)
    joint = checks_of(found)["joint"]
    if run == "no speculation":
        assert found.verdict is SubjectVerdict.INCONCLUSIVE
        assert "nothing was drafted" in joint.detail
    else:
        assert found.verdict is SubjectVerdict.LOSSLESS
        assert found.smallest_detectable_tv <= 0.1
    # Log-probabilities are wrong with drafts, and missing before a stop string: docs/findings has both.
    assert {check.name for check in found.checks if check.status is Status.FAILED} <= {"logprobs", "length"}
