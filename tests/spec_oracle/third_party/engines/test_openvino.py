"""OpenVINO GenAI as installed: lookups are lossless, sampled drafts of a model are not."""

import subprocess
import sys

import pytest

from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit
from spec_oracle.audit.engine.long_texts import ENGINE_LONG_TOKENS
from spec_oracle.third_party.engines.openvino import VOCAB, logits_after, small_weights
from tests.subjects import checks_of


def test_the_model_reads_contexts_of_the_length_of_long_texts():
    prompt, completion = (0, 1), (2,) * ENGINE_LONG_TOKENS
    assert logits_after(small_weights(1), prompt + completion).shape == (VOCAB,)


@pytest.mark.engines
@pytest.mark.parametrize(
    ("name", "verdict", "status"),
    [
        ("openvino-lookup", SubjectVerdict.LOSSLESS, Status.PASSED),
        ("openvino-draft-model", SubjectVerdict.LOSSY, Status.FAILED),
    ],
)
def test_completions_are_judged_by_samples(name, verdict, status):
    (found,) = audit(name, options=AuditOptions(tokens=3, budget=40.0, checks=["calls"])).subjects
    assert (found.verdict, found.evidence) == (verdict, Evidence.STATISTICAL)
    assert checks_of(found)["calls"].status is status


@pytest.mark.engines
def test_nothing_is_reported_to_others():
    """A report would fork the process, which code with threads may not outlive."""
    makes = "from spec_oracle.third_party.engines.openvino import lookups; lookups()"
    says = "import sys; print(sys.modules['openvino_telemetry'])"
    command = [sys.executable, "-c", f"{makes}; {says}"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "None"
