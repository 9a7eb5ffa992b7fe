"""Smoke test of the decoding loop on a large pair: runs through, reports time and memory.

``--target`` and ``--draft`` name any Hugging Face pair; without them a randomly initialised Llama-like target
is drafted by its own first layers: about a billion parameters on a GPU, half a million on a CPU.
"""

import time

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import verifiers
from spec_oracle.language_models import LanguageModel, Truncation, load_language_model
from spec_oracle.language_models.decoding import decode
from spec_oracle.language_models.loading import first_layers

SIZES = {"cpu": (1009, 64, 256, 4, 4, 2), "cuda": (128_256, 2048, 8192, 16, 32, 8)}
FIELDS = (
    *("vocab_size", "hidden_size", "intermediate_size"),
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
)


def random_pair(device, dtype):
    config = LlamaConfig(**dict(zip(FIELDS, SIZES[torch.device(device).type], strict=True)))
    with torch.device(device):
        torch.set_default_dtype(dtype)
        try:
            network = LlamaForCausalLM(config).eval()
        finally:
            torch.set_default_dtype(torch.float32)
    return LanguageModel(network), LanguageModel(first_layers(network, 3 * config.num_hidden_layers // 4))


@pytest.mark.parametrize("name", ["token", "block", "traversal", "greedy_multipath_block"])
def test_a_large_pair_decodes(name, request, device, dtype, record_property):
    named, precision = request.config.getoption("--target"), request.config.getoption("--dtype")
    if named is None:
        target, draft = random_pair(device, dtype)
    else:
        target = load_language_model(named, device=device, dtype=precision)
        layers = target.network.config.num_hidden_layers // 2
        drafter = request.config.getoption("--draft") or f"{named}:layers={layers}"
        draft = load_language_model(drafter, device=device, dtype=precision)
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter()
    options = {"max_new_tokens": 32, "draft_length": 4, "num_paths": 2, "truncation": Truncation(top_k=50)}
    generator = torch.Generator(device).manual_seed(1)
    prompts = [[1, 2, 3, 4]] * 4
    decoded = decode(verifiers.get(name), target, draft, prompts, generator=generator, **options)
    record_property("seconds", time.perf_counter() - started)
    if on_gpu:
        record_property("peak_bytes", torch.cuda.max_memory_allocated(device))
    record_property("tokens_per_call", decoded.block_efficiency)
    assert all(len(text) == 32 for text in decoded.texts)
