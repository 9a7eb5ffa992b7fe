"""mlx-lm's speculative decoding as installed: filters are lossless; penalties forget the prompt."""

import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit


@pytest.mark.engines
@pytest.mark.parametrize(
    ("name", "verdict"),
    [("mlx-lm-generate", SubjectVerdict.LOSSLESS), ("mlx-lm-penalties", SubjectVerdict.LOSSY)],
)
def test_the_law_of_its_texts_is_enumerated(name, verdict):
    (found,) = audit(name, options=AuditOptions(tokens=3, checks=["calls"])).subjects
    assert (found.verdict, found.evidence) == (verdict, Evidence.EXACT)
