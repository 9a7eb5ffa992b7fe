"""ONNX Runtime GenAI as installed: lossless with a draft model and with n-grams, by samples."""

import pytest

from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit


@pytest.mark.engines
def test_its_completions_are_lossless():
    (found,) = audit(
        "onnxruntime-genai", options=AuditOptions(tokens=2, budget=200.0, checks=["calls"])
    ).subjects
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.STATISTICAL)
    assert next(check.status for check in found.checks if check.name == "calls") is Status.PASSED
