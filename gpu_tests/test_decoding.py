"""The decoding loop: its text is the target's, its tokens per call are the enumerated ones."""

import numpy as np
import pytest
import torch

import verifiers
from gpu_tests.observed import ONE_OF_EACH_KIND, RULES, by_day
from gpu_tests.tiny import assert_law, plain_text_law, text_counts, tiny_model
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.language_models import Truncation
from spec_oracle.language_models.cuts import language_model_tree
from spec_oracle.language_models.decoding import decode

PROMPT = [1, 2]
ALPHA = 1e-9  # a test; seeds are fixed, so no alarm is false twice


def seeded(device):
    return torch.Generator(device).manual_seed(7)


@pytest.mark.parametrize("name", by_day(RULES))
def test_text_of_several_calls_is_the_targets(name, device):
    """Four tokens, so at least two calls of L = 2; carried states and the bonus token included.

    81 texts, an alarm of false rate 1e-9. An e-process finds a total variation of 0.17 with 4,000
    texts and of 0.06 with 40,000 (with probability 0.999): it need not pool the rare ones, as other tests do.
    """
    requests, detect_tv = (40_000, 0.06) if device.startswith("cuda") else (4000, 0.17)
    target, draft = tiny_model(1, device=device), tiny_model(2, device=device)
    truncation = Truncation(top_k=3)
    options = {"draft_length": 2, "num_paths": 2, "truncation": truncation, "generator": seeded(device)}
    decoded = decode(verifiers.get(name), target, draft, [PROMPT] * requests, max_new_tokens=4, **options)
    assert len(decoded.calls) > 1
    law = plain_text_law(target, PROMPT, 4, truncation).reshape(-1)
    counts = text_counts(decoded.texts, 5, 4).reshape(-1)
    assert_law(counts, law, alpha=ALPHA, detect_tv=detect_tv)


@pytest.mark.parametrize("name", by_day(ONE_OF_EACH_KIND))
def test_tokens_per_call_agree_with_the_enumerated_figure(name, device):
    """Lengths by an e-process at 1e-9; means by Hoeffding: miss by eps: chance 2 exp(-2n (eps/L)^2)."""
    verifier, length, requests = verifiers.get(name), 2, 4000
    target, draft = tiny_model(3, vocab=6, device=device), tiny_model(4, vocab=6, device=device)
    sizes = {"top_k": 2, "depth": length, "num_paths": 2}
    instance = language_model_tree(target, draft, PROMPT, **sizes, shortlist="union")
    law = emission_law(verifier, instance)
    exact = float(law.block_efficiency)
    options = {"draft_length": length, "num_paths": 2, "generator": seeded(device), "expectations": True}
    options |= {"max_new_tokens": 1, "truncation": Truncation(top_k=2)}
    decoded = decode(verifier, target, draft, [PROMPT] * requests, **options)
    margin = length * np.sqrt(np.log(2 / ALPHA) / (2 * requests))
    assert abs(decoded.block_efficiency - exact) < margin
    assert abs(decoded.conditional_block_efficiency - exact) < margin
    (accepted,) = decoded.calls
    lengths = np.bincount(accepted, minlength=length + 1)
    assert_law(lengths, np.array(law.accepted_length_pmf), alpha=ALPHA, detect_tv=0.1)
    (expected,) = decoded.expected
    assert expected.var() < accepted.var()


def test_a_draft_equal_to_the_target_is_accepted_whole(device):
    target = tiny_model(1, device=device)
    options = {"max_new_tokens": 9, "draft_length": 3, "generator": seeded(device)}
    decoded = decode(verifiers.get("block"), target, target, [PROMPT] * 8, **options)
    assert decoded.block_efficiency > 3.9


def test_prompts_of_other_lengths_do_not_change_a_text(device):
    models = [tiny_model(seed, device=device) for seed in (1, 2)]
    options = {"max_new_tokens": 6, "draft_length": 3, "truncation": Truncation(top_k=1)}
    alone, batched = (
        decode(verifiers.get("token"), *models, prompts, **options)
        for prompts in ([PROMPT], [PROMPT, [0, 1, 2, 3, 4, 4, 1]])
    )
    assert alone.texts[0] == batched.texts[0]


def test_a_stop_token_ends_the_text(device):
    models = [tiny_model(seed, device=device) for seed in (1, 2)]
    options = {"max_new_tokens": 8, "draft_length": 3, "stop_tokens": [1], "generator": seeded(device)}
    decoded = decode(verifiers.get("block"), *models, [PROMPT] * 50, **options)
    for text in decoded.texts:
        assert 1 not in text[:-1]
        assert text[-1] == 1 or len(text) == 8


def test_invalid_decoding_arguments_are_refused(device):
    model = tiny_model(1, device=device)
    with pytest.raises(InvalidInputError, match="toy model"):
        decode(verifiers.get("block_transport"), model, model, [PROMPT], max_new_tokens=1)
    with pytest.raises(InvalidInputError, match="prompts"):
        decode(verifiers.get("block"), model, model, [[]], max_new_tokens=1)


@pytest.mark.parametrize("name", by_day(ONE_OF_EACH_KIND))
def test_a_request_with_its_own_generator_gets_the_same_text_in_any_batch(name, device):
    models = [tiny_model(seed, device=device, dtype=torch.float64) for seed in (1, 2)]
    prompts = [PROMPT, [0, 1, 2, 3, 4, 4, 1], [3]]
    options = {"max_new_tokens": 12, "draft_length": 3, "num_paths": 2}

    def texts(some):
        own = [torch.Generator(device).manual_seed(number) for number in some]
        chosen = [prompts[number] for number in some]
        return decode(verifiers.get(name), *models, chosen, generator=own, **options).texts

    together = texts([0, 1, 2])
    assert texts([2, 0]) == (together[2], together[0])
    with pytest.raises(InvalidInputError, match="generator: 1 for 2 prompts"):
        decode(verifiers.get(name), *models, prompts[:2], generator=[seeded(device)], **options)
