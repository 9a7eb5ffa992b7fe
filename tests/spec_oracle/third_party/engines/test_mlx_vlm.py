"""mlx-vlm's speculative decoding: drafts are accepted by the target's samples, with two exceptions."""

from itertools import chain

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit

pytestmark = pytest.mark.engines


@pytest.fixture(autouse=True)
def _installed():
    pytest.importorskip("mlx_vlm")


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("mlx-vlm-generate", SubjectVerdict.LOSSLESS),
        ("mlx-vlm-eagle3", SubjectVerdict.LOSSY),
        ("mlx-vlm-processors", SubjectVerdict.LOSSY),
    ],
)
def test_the_distribution_of_two_tokens_is_enumerated(name, verdict):
    (found,) = audit(name, options=AuditOptions(tokens=2, checks=["joint"])).subjects
    assert (found.verdict, found.evidence) == (verdict, Evidence.EXACT)


def test_calls_emit_accepted_drafts_and_a_sample_of_the_target():
    from spec_oracle.third_party.engines.mlx_vlm import engines

    for engine in engines().values():
        first, *calls = engine.steps([0, 1], 12, 1)
        assert len(first) == 1
        assert [*first, *chain(*calls)] == engine.generate([0, 1], 12, 1)
        assert 0 <= engine.accepted - sum(len(emitted) - 1 for emitted in calls) <= 1  # cut at its limit
        assert engine.accepted < engine.drafted


def test_rows_along_a_completion_are_those_of_its_contexts():
    from spec_oracle.third_party.engines.mlx_vlm import MlxVlmEngine

    engine = MlxVlmEngine("dflash")
    completion = engine.generate_plain([0, 1], 9, 1)
    rows = [engine.next_token_probs([0, 1, *completion[:end]]) for end in range(9)]
    np.testing.assert_allclose(engine.rows_along([0, 1], completion), rows, atol=1e-6)


@pytest.mark.parametrize("kind", ["dflash", "mtp"])
def test_with_a_seed_completions_are_those_of_target_only_decoding(kind):
    import mlx.core as mx
    from mlx_vlm.generate import generate_step

    from spec_oracle.third_party.engines.mlx_vlm import MlxVlmEngine

    engine = MlxVlmEngine(kind, 3)

    def completion(seed, **how):
        how |= {"max_tokens": 40, "temperature": 1.0, "seed": seed}
        return [int(token) for token, _ in generate_step(mx.array([[0, 1]]), engine.model, None, None, **how)]

    for seed in range(3):
        assert completion(seed, **engine.how) == completion(seed)
    assert sum(engine.draft.accept_lens) > 0
