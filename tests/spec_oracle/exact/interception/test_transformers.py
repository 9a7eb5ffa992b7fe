"""Hugging Face's verifier, as installed, has exactly the target's law."""

import itertools

import numpy as np
import pytest

from spec_oracle.exact.interception import enumerate_calls
from tests.spec_oracle.exact.interception.support import (
    along,
    call_law,
    drafts,
    extended,
    random_models,
    sequence_law,
    total_variation,
)
from tests.strategies import by_day

torch = pytest.importorskip("torch")
generation = pytest.importorskip("transformers.generation.utils")


def verify(path, draft_rows, target_rows, weight=None):
    draft_logits = torch.tensor(draft_rows).log()[None]
    target_logits = torch.tensor(target_rows).log()[None]
    return generation._speculative_sampling(
        torch.tensor([path]), draft_logits, len(path), target_logits, weight
    )


def distance(vocab_size, draft_length, weight=None):
    target, draft = random_models(10 * vocab_size + draft_length, vocab_size, draft_length)
    emitted = {}
    for path, probability in drafts(draft, vocab_size, draft_length):
        rows = along(draft, path, draft_length), along(target, path, draft_length + 1)
        law = call_law(
            lambda p=path, r=rows: verify(p, *r, weight), lambda result: tuple(result[0][0].tolist())
        )
        for emission, chance in law.items():
            emitted[emission] = emitted.get(emission, 0.0) + probability * chance
    length = draft_length + 1
    return total_variation(
        extended(emitted, target, vocab_size, length), sequence_law(target, vocab_size, length)
    )


@pytest.mark.parametrize(
    ("vocab_size", "draft_length"),
    by_day([*itertools.product((3, 4), (1, 2, 3, 4))], [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2)]),
)
def test_speculative_sampling_is_lossless(vocab_size, draft_length):
    assert distance(vocab_size, draft_length) < 1e-12


def test_ensemble_weight_is_lossy():
    assert distance(3, 2, weight=0.7) > 0.01


def test_single_precision_gives_the_law_of_single_precision():
    draft, target = np.array([[0.2, 0.3, 0.5]]), np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])
    branches = enumerate_calls(
        lambda: generation._speculative_sampling(
            torch.tensor([[2]]),
            torch.tensor(draft, dtype=torch.float32).log()[None],
            1,
            torch.tensor(target, dtype=torch.float32).log()[None],
        )
    )
    accepted = sum(branch.weight for branch in branches if branch.result[1] == 1)
    assert 1e-10 < abs(accepted - 0.6) < 1e-6
