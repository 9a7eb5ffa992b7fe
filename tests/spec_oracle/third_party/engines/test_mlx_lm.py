"""mlx-lm's speculative decoding as installed: filters are lossless; penalties forget the prompt."""

from itertools import chain

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit


@pytest.mark.engines
@pytest.mark.parametrize(
    ("name", "verdict"),
    [("mlx-lm-generate", SubjectVerdict.LOSSLESS), ("mlx-lm-penalties", SubjectVerdict.LOSSY)],
)
def test_the_law_of_texts_is_enumerated(name, verdict):
    (found,) = audit(name, options=AuditOptions(tokens=3, checks=["calls"])).subjects
    assert (found.verdict, found.evidence) == (verdict, Evidence.EXACT)


@pytest.mark.engines
def test_calls_end_with_a_token_that_is_no_draft_and_log_probabilities_are_those_before_the_filter():
    from spec_oracle.third_party.engines.mlx_lm import engines

    engine = engines()["drafts of two"]
    calls = [*engine.steps([0, 1], 12, 1)]
    assert [*chain(*calls)] == engine.generate([0, 1], 12, 1)
    assert 0 <= engine.accepted - sum(len(emitted) - 1 for emitted in calls) <= 1  # the last may be a draft
    for name, status in (("mlx-lm-generate", "passed"), ("mlx-lm-penalties", "failed")):
        (found,) = audit(name, options=AuditOptions(checks=["logprobs"])).subjects
        assert [check.status.value for check in found.checks if check.name == "logprobs"] == [status]


@pytest.mark.engines
def test_rows_along_a_completion_are_those_of_its_contexts():
    from spec_oracle.third_party.engines.mlx_lm import engines, penalties

    for engine in (engines()["top-k"], penalties()["repetition"]):
        completion = engine.generate([0, 1], 40, 1)
        found = engine.rows_along([0, 1], completion)
        rows = [engine.next_token_probs([0, 1, *completion[:end]]) for end in range(40)]
        np.testing.assert_allclose(found, rows, atol=1e-6)
