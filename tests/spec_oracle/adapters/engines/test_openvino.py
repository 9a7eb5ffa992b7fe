"""OpenVINO GenAI as installed: lookups are lossless, sampled drafts of a model are not."""

import pytest

from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit


@pytest.mark.engines
@pytest.mark.parametrize(
    ("name", "verdict", "status"),
    [
        ("openvino-lookup", SubjectVerdict.LOSSLESS, Status.PASSED),
        ("openvino-draft-model", SubjectVerdict.LOSSY, Status.FAILED),
    ],
)
def test_its_texts_are_judged_by_draws(name, verdict, status):
    (found,) = audit(name, options=AuditOptions(tokens=3, budget=40.0, checks=["calls"])).subjects
    assert (found.verdict, found.evidence) == (verdict, Evidence.STATISTICAL)
    assert next(check.status for check in found.checks if check.name == "calls") is status
