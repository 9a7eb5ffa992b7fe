"""For the tests of vllm-mlx: requests that are decoded together sample from the target's distribution."""

from types import SimpleNamespace

import mlx.core as mx
from mlx_lm.sample_utils import make_sampler

from vllm_mlx.mllm_batch_generator import MLLMBatchResponse, install_mtp_mllm

RUNS = 1000
TOLERANCE = 0.07  # more than four standard deviations of a share of 1,000 samples


class Model:
    """Two tokens: the target samples either with 1/2, the MTP head drafts token 0."""

    def __call__(self, tokens, cache=None, return_hidden=False, **kwargs):
        return mx.zeros((*tokens.shape, 2)), mx.zeros((*tokens.shape, 1))

    def mtp_forward(self, hidden, tokens, mtp_cache=None):
        return mx.broadcast_to(mx.array([20.0, 0.0]), (*tokens.shape, 2))


def completions(requests):
    """Decode requests together; return the tokens of each after the first, which is fixed."""
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    batch = SimpleNamespace(
        uids=list(range(requests)),
        requests=[SimpleNamespace(output_tokens=[], **sampling) for _ in range(requests)],
        num_tokens=[0] * requests,
        max_tokens=[100] * requests,
        y=mx.zeros((requests,), mx.int32),
    )
    generator = SimpleNamespace(active_batch=batch, stop_tokens=set(), sampler=make_sampler(1.0), _step=None)

    def following():
        tokens = batch.y
        batch.y, logprobs = generator._step(tokens[:, None], [], samplers=[generator.sampler] * requests)
        return [
            MLLMBatchResponse(uid=uid, request_id=str(uid), token=token, logprobs=logprobs[uid])
            for uid, token in enumerate(tokens.tolist())
        ]

    generator._next = following
    install_mtp_mllm(generator, Model())
    emitted = [[] for _ in range(requests)]
    for _ in range(3):
        for response in generator._next():
            emitted[response.uid].append(response.token)
    return [tokens[1:] for tokens in emitted]


def share_of_token_0(requests):
    """Return how often the second sampled token of the first request is token 0: with 1/2."""
    mx.random.seed(0)
    return sum(completions(requests)[0][1] == 0 for _ in range(RUNS)) / RUNS


def test_a_request_alone():
    assert abs(share_of_token_0(1) - 0.5) < TOLERANCE


def test_two_requests_together():
    assert abs(share_of_token_0(2) - 0.5) < TOLERANCE
