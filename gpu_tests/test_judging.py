"""The judges themselves: right runs pass, wrong ones are found, and nothing is compared without power."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpu_tests.judging import ALPHA, LengthEvidence, greedy_compared, parts_at_near_ties, texts_compared
from gpu_tests.observed import decoded_texts, observed
from gpu_tests.pair import load_pair
from gpu_tests.second_pass import Rounding, cells, chance_of_one_token, mass_by_cell, second_pass
from spec_oracle.language_models import Truncation

EXACT = Rounding(1000, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def pair(device):
    found = load_pair(device, "float32", target=None, draft=None, size="small")
    return replace(found, requests=6, tokens=9)


def test_equal_lengths_raise_no_alarm_and_others_are_found_where_that_is_stated():
    """200 runs at 1e-2, so 2 alarms are expected at most; 13 or more have probability 1e-6.

    Off are all calls, or a few of which nothing is accepted.
    """
    rng = np.random.default_rng(1)
    alarms, found, found_in_few = 0, 0, 0
    for _ in range(200):
        right, wrong, few = LengthEvidence(4), LengthEvidence(4), LengthEvidence(4)
        lengths = rng.binomial(4, 0.6, (2, 1500))
        right.observe(lengths[0] - lengths[1])
        alarms += right.p_value <= 1e-2
        shift = right.detects(1e-2)
        wrong.observe(rng.binomial(4, 0.6 + shift / 4, 1500) - lengths[1])
        found += wrong.p_value <= 1e-2
        left_out = rng.random(1500) < right.detects(1e-9) / 2.4
        few.observe(np.where(left_out, 0, lengths[0]) - lengths[1])
        found_in_few += few.p_value <= 1e-9
    assert alarms < 13
    assert found == found_in_few == 200


def test_tokens_without_mass_do_not_add_to_what_rounding_moves():
    """By inversion of [0.5, 0.5] and [0.4, 0.6] the same uniform finds other tokens in [0.4, 0.5) alone."""
    rows = torch.tensor(
        [[0.5, 0, 0, 0, 0.5], [0.5, 0.5, 0, 0, 0], [0, 0.25, 0, 0, 0.75]], dtype=torch.float64
    )
    others = torch.tensor(
        [[0.4, 0, 0, 0, 0.6], [0.5, 0.5, 0, 0, 0], [0.25, 0, 0, 0, 0.75]], dtype=torch.float64
    )
    assert chance_of_one_token(rows, others).tolist() == pytest.approx([0.9, 1, 0.75])


def test_cells_keep_all_mass_and_the_likeliest_tokens():
    generator = torch.Generator().manual_seed(1)
    p, q = torch.rand((2, 5, 300), generator=generator, dtype=torch.float64) ** 4
    p[:, 7] = 0
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    cell = cells(p, q)
    for rows in (p, q):
        torch.testing.assert_close(mass_by_cell(rows, cell).sum(1), torch.ones(5, dtype=torch.float64))
    assert (cell.gather(1, p.argmax(1, keepdim=True)) == 0).all()
    last = mass_by_cell(p, cell)[:, -1]
    assert (last == 0).all()
    assert (cell[:, 7] == cell.max()).all()


def test_the_second_pass_has_the_rows_of_each_text_alone(pair):
    run = observed(pair, "token")
    ((_, places),) = second_pass(pair, run.prompts, run.texts, Truncation())
    start = 0
    for prompt, text in zip(run.prompts, run.texts, strict=True):
        ids = torch.tensor([[*prompt, *text]], device=pair.device)
        with torch.inference_mode():
            logits = pair.target.network(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        rows = Truncation(temperature=pair.target.temperature).probabilities(logits)
        torch.testing.assert_close(places.target[start : start + len(text)], rows, rtol=1e-4, atol=1e-7)
        start += len(text)


def test_a_batch_is_split_by_memory(pair):
    tight = replace(pair, memory=5 * 8 * 2 * 7 * pair.vocab_size * 2.5)
    assert tight.batch == 2
    run = observed(tight, "token")
    assert len(run.texts) == 6
    assert all(len(text) == 9 for text in run.texts)


def test_a_wrong_greedy_token_is_found(pair):
    prompts = pair.prompts(3)
    texts = decoded_texts(pair, "block", prompts, Truncation(top_k=1))
    assert greedy_compared(pair, prompts, texts, EXACT).parted == 0
    wrong = [(*text[:-1], (text[-1] + 1) % pair.vocab_size) for text in texts]
    assert greedy_compared(pair, prompts, wrong, EXACT).parted == 3
    assert parts_at_near_ties(pair, prompts, wrong, texts, EXACT).parted == 3
    near = replace(EXACT, largest=1.0)
    assert greedy_compared(pair, prompts, wrong, near).explained == 3


def test_texts_that_diverge_are_found_unless_rounding_explains_it(pair):
    texts, others = [(1, 2, 3)] * 4, [(4, 2, 3)] * 4
    assert texts_compared(pair, texts, texts, EXACT).parted == 0
    assert texts_compared(pair, texts, others, EXACT).parted == 4
    assert texts_compared(pair, texts, others, replace(EXACT, flips=1e-4)).parted == 4
    assert "not tried" in str(texts_compared(pair, texts, others, replace(EXACT, flips=1e-2)))
    assert ALPHA < 1e-8
