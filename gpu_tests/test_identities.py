"""sum_x q(x) law(. | x) = p over whole vocabularies: every draft and outcome, no draws (L = 1, K = 1).

For `token` and `block`, which decide a length and then a token. Rules of several paths have V^K drafts:
at full vocabularies their law is out of reach, here it is enumerated on cuts (`test_cuts`) and small V.
"""

import pytest
import torch

import verifiers
from spec_oracle.language_models import Truncation, load_language_model
from verifiers import Drafts


class Refusing:
    """Records both decisions of a one-token rule; answers the first one with an accepted length of 0."""

    def __init__(self):
        self.chances = []

    def categorical(self, weights):
        self.chances.append(weights / weights.sum(dim=-1, keepdim=True))
        return torch.zeros(weights.shape[:-1], dtype=torch.int64, device=weights.device)


def first_token_law(name, p, q, rows):
    """Return the law [V] of the first token emitted, over all drafts with q > 0, ``rows`` at a time."""
    law = torch.zeros_like(p)
    for tokens in q.nonzero()[:, 0].split(rows):
        batch = len(tokens)
        decisions = Refusing()
        verifiers.get(name).verify(
            Drafts.of_paths(tokens[:, None, None], q.expand(batch, 1, 1, -1), p.expand(batch, 1, 2, -1)),
            decisions,
        )
        lengths, correction = decisions.chances
        law[tokens] += q[tokens] * lengths[:, 1]
        law += (q[tokens] * lengths[:, 0]) @ correction
    return law


@pytest.mark.parametrize("name", ["token", "block"])
@pytest.mark.parametrize("vocab", [3, 97, 4099])
def test_identities_hold_on_random_rows(name, vocab, device):
    generator = torch.Generator().manual_seed(3)
    p, q = (torch.randn((2, vocab), generator=generator, dtype=torch.float64) * 3).softmax(dim=1).to(device)
    assert (first_token_law(name, p, q, 256) - p).abs().sum() < 1e-12


@pytest.mark.lm
@pytest.mark.parametrize("name", ["token", "block"])
def test_identities_hold_on_rows_of_smollm2(name, device):
    """The target's whole row of 49,152 tokens; the draft's likeliest 1,000 on a CPU, all of them on a GPU."""
    models = [load_language_model(spec, device=device) for spec in ("smollm2", "smollm2:layers=20")]
    ids = torch.tensor([models[0].encode("The capital of France is")], device=device)
    with torch.inference_mode():
        p, q = (model.network(ids).logits[0, -1] for model in models)
    p = Truncation().probabilities(p)
    q = Truncation(top_k=0 if device.startswith("cuda") else 1000).probabilities(q)
    assert len(p) == 49_152
    assert (p > 0).all()
    assert (first_token_law(name, p, q, 64) - p).abs().sum() < 1e-12
