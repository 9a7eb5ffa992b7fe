"""Tiny random Llama-like models: real code paths, few tokens, and laws that can be counted."""

from itertools import product

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from spec_oracle.language_models import LanguageModel, Truncation
from spec_oracle.statistics import EProcess, goodness_of_fit_by_e_process


def tiny_model(seed, *, vocab=5, device="cpu", dtype=torch.float32, sharpness=30.0):
    """Return a random model whose rows differ clearly from context to context."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LlamaForCausalLM(config)
    return LanguageModel(network.to(device, dtype).eval(), temperature=30.0 / sharpness)


def plain_text_law(model, prompt, num_tokens, truncation=None):
    """Return the law of the next ``num_tokens`` tokens, [V] * num_tokens, from one pass without a cache."""
    vocab = model.network.config.vocab_size
    texts = torch.tensor(list(product(range(vocab), repeat=num_tokens)), device=model.device)
    whole = torch.cat([torch.tensor([prompt], device=model.device).expand(len(texts), -1), texts], dim=1)
    with torch.inference_mode():
        logits = model.network(input_ids=whole).logits / model.temperature
    rows = (truncation or Truncation()).probabilities(logits[:, len(prompt) - 1 : -1])
    chances = rows.gather(-1, texts[:, :, None])[:, :, 0].prod(dim=1)
    return chances.cpu().numpy().reshape((vocab,) * num_tokens)


def assert_law(counts, law, *, alpha, detect_tv):
    """Assert by an e-process that counts follow a law, and that a TV of ``detect_tv`` would be found."""
    found = goodness_of_fit_by_e_process(EProcess.against([law]).observe(counts), alpha=alpha)
    assert found.passed, str(found)
    assert found.smallest_detectable_tv <= detect_tv


def text_counts(texts, vocab, num_tokens):
    """Count the first tokens of texts, [V] * num_tokens."""
    counts = np.zeros((vocab,) * num_tokens, dtype=np.int64)
    for text in texts:
        counts[tuple(text[:num_tokens])] += 1
    return counts
