"""ONNX Runtime GenAI as installed: lossless with a draft model and with n-grams, by samples."""

import pytest

from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit


@pytest.mark.engines
def test_completions_are_lossless():
    (found,) = audit(
        "onnxruntime-genai", options=AuditOptions(tokens=2, budget=200.0, checks=["calls", "long-texts"])
    ).subjects
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.STATISTICAL)
    statuses = {check.name: check.status for check in found.checks}
    assert statuses["calls"] is statuses["long-texts"] is Status.PASSED
