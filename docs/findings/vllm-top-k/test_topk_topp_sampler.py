"""For tests/v1/sample/test_topk_topp_sampler.py of vLLM: a batch without drafted tokens."""

import pytest
import torch

from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch


@pytest.mark.parametrize("with_top_p", [False, True])
@pytest.mark.parametrize("with_top_k", [False, True])
def test_filters_of_no_rows_return_no_rows(with_top_k, with_top_p):
    top_k = torch.empty(0, dtype=torch.int32) if with_top_k else None
    top_p = torch.empty(0) if with_top_p else None
    logits = torch.empty(0, 8)
    try:
        found = apply_top_k_top_p_pytorch(logits, top_k, top_p, allow_cpu_sync=True)
    except RuntimeError as error:
        raise AssertionError("no row must not raise") from error
    assert found.shape == (0, 8)
