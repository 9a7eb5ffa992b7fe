"""The study of providers: what is rounded, how samples are judged, and what the page says of them."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from lab.studies import providers  # noqa: E402
from lab.studies.provider_models import Served, to_bits  # noqa: E402
from lab.studies.providers import Compared, Row, rejects, short_law, table, tokens_needed  # noqa: E402


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 12, "initializer_range": 0.5}
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=32, **sizes)
    return transformers.LlamaForCausalLM(config).eval()


def test_weights_are_rounded_to_so_many_values_a_block():
    weights = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    for bits in (8, 3, 2):
        found = to_bits(bits, weights)
        assert max(len(np.unique(block)) for block in found.reshape(-1, 32)) <= 2**bits
        assert abs(found - weights).max() <= np.ptp(weights) / (2**bits - 1)


def test_short_completions_have_the_distribution_of_the_network(network):
    with torch.inference_mode():
        found = short_law(Served(network, temperature=2.0), (3, 1))
        expected = 1.0
        text, ids = next(iter(found)), [3, 1]
        for token in text:
            logits = network(torch.tensor([ids])).logits[0, -1].double() / 2
            best = logits.topk(providers.TOP_K)
            expected *= float(best.values.softmax(0)[best.indices.tolist().index(token)])
            ids.append(token)
    assert len(found) == providers.TOP_K**providers.SHORT
    assert sum(found.values()) == pytest.approx(1)
    assert found[text] == pytest.approx(expected, rel=1e-3)


def test_tokens_of_another_distribution_are_found_and_no_others(monkeypatch):
    monkeypatch.setattr(providers, "TOKENS", 50)
    monkeypatch.setattr(providers, "DRAWS", 3 * providers.DRAWS // providers.RUNS)
    monkeypatch.setattr(providers, "RUNS", 3)
    reference = torch.tensor([[0.5, 0.3, 0.15, 0.05]] * 50, dtype=torch.float64)
    for law, is_other in ((reference, False), (reference.flip(1), True)):
        compared = Compared()
        compared.add(law, reference, torch.Generator().manual_seed(1))
        needed, _ = zip(*tokens_needed(compared, np.random.default_rng(0)), strict=True)
        assert all(math.isfinite(one) == is_other for one in needed)
        assert compared.distances[0] == pytest.approx(0.6 if is_other else 0.0)


def test_completions_of_another_distribution_are_found():
    one, other = {(0, 1): 0.7, (1, 1): 0.3}, {(0, 1): 0.3, (1, 1): 0.7}
    rng = np.random.default_rng(0)
    assert rejects([one] * 2, [other] * 2, 400, 1e-6, rng)
    assert not rejects([one] * 2, [one] * 2, 400, 1e-6, rng)


def test_the_table_lists_what_was_not_found():
    row = Row("mine", 0.1, 0.02, [(math.inf, "*"), (500.0, "*")], [math.inf, 64], 0.5)
    shown = table([row], 9000)
    assert "| mine | 0.1 | 0.02 | more than 9,000 | 500* | more than 100,000 | 64 | 50% |" in shown
