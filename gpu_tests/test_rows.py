"""Verification at size: decisions for decisions as numpy, and the laws hold on whole rows."""

import itertools

import numpy as np
import pytest
import torch

import verifiers
from gpu_tests.observed import ONE_OF_EACH_KIND, by_day
from gpu_tests.rows import drawn_drafts, on_device, rounded
from gpu_tests.tiny import assert_law
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from verifiers import Drafts, replayed_decisions, torch_decisions

STATELESS = [
    name for name in verifiers.names() if not isinstance(verifiers.get(name), verifiers.StatefulVerifier)
]
# (V, B, L, K): primes and other sizes that no kernel is tuned for.
SIZES = [(3, 1, 1, 1), (3, 37, 4, 3), (101, 13, 5, 2), (1009, 3, 2, 2), (151_936, 1, 1, 2)]
# The law of `canonical` sums over multisets of tokens: a rule for toys, by its docstring.
PARITY = [(name, size) for name in STATELESS for size in SIZES if name != "canonical" or size[0] < 2000]
OF_DAY = {(SIZES[1], torch.bfloat16), (SIZES[3], torch.float64)}
"""Sizes and precisions of which two are enough by day; on a GPU all are run."""
LARGE = [(151_936, 64, 8, 1), (151_936, 2, 16, 2), (32_003, 256, 4, 1), (32_003, 7, 3, 8)]


@pytest.mark.parametrize(
    ("name", "size", "precision"),
    [
        pytest.param(name, size, precision, marks=() if (size, precision) in OF_DAY else pytest.mark.nightly)
        for (name, size), precision in itertools.product(
            PARITY, (torch.float64, torch.bfloat16, torch.float32)
        )
    ],
    ids=str,
)
def test_the_same_uniforms_give_the_verdict_of_numpy(name, size, precision, device):
    _, batch, length, paths = size
    drafts = drawn_drafts(*size)
    uniforms = np.random.default_rng(1).random((batch, 4 * (length + 1) * (paths + 2)))
    expected = verifiers.get(name).verify(rounded(drafts, precision), replayed_decisions(uniforms))
    got = verifiers.get(name).verify(
        on_device(drafts, device, precision), replayed_decisions(torch.from_numpy(uniforms).to(device))
    )
    np.testing.assert_array_equal(got.emitted.cpu().numpy(), expected.emitted)


@pytest.mark.parametrize("name", by_day(STATELESS))
def test_draws_follow_the_enumerated_law(name, device, dtype):
    from spec_oracle.audit.draws import sampled_drafts
    from verifiers import drafting_of

    verifier = verifiers.get(name)
    instance = Instance.random(3, 2, num_paths=2, seed=5, agreement=0.3)
    drafts = sampled_drafts(instance, 20_000, np.random.default_rng(2), drafting_of(verifier))
    # Rounding moves the law of bfloat16 rows by about 1e-3, far less than these draws can find.
    verdict = verifier.verify(
        on_device(drafts, device, dtype), torch_decisions(torch.Generator(device).manual_seed(3))
    )
    lengths = np.bincount(verdict.num_accepted.cpu().numpy(), minlength=3)
    law = np.array(emission_law(verifier, instance).accepted_length_pmf, dtype=float)
    assert_law(lengths, law / law.sum(), alpha=1e-9, detect_tv=0.1)


@pytest.mark.parametrize("name", ["token", "block", "naive", "recursive_rejection", "traversal"])
@pytest.mark.parametrize("vocab", [3, 97])
def test_one_step_gives_the_target_row_at_every_vocabulary_size(name, vocab):
    """Sum over x of q(x) law(. | x) = p for L = 1, one path: every outcome enumerated, no draws."""
    drafts = drawn_drafts(vocab, 1, 1, 1, seed=4)
    q, p = drafts.draft_probs[0, 0, 0], drafts.target_probs[0, 0]
    instance = Instance.context_free(p[0].tolist(), q.tolist(), draft_length=1)
    law = emission_law(verifiers.get(name), instance, array="torch", merged=False)
    first = law.extended().sum(axis=1)
    np.testing.assert_allclose(first, p[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", by_day(STATELESS))
def test_no_token_without_mass_is_emitted(name, device, dtype):
    """K = 2, L = 2, V = 7, half of the tokens without mass.

    On a GPU 1e8 requests of one rule of each kind, 1e7 of others: a float32 uniform is 0 once in 2^24.
    """
    total = batch = 20_000
    if device.startswith("cuda"):
        total, batch = 10**8 if name in ONE_OF_EACH_KIND else 10**7, 10**6
    weights = torch.tensor(
        [[0, 3, 0, 5, 0, 2, 1], [1, 0, 0, 2, 7, 0, 4], [0, 0, 9, 1, 0, 3, 0]], dtype=torch.float64
    )
    p = (weights / weights.sum(dim=1, keepdim=True)).to(device, dtype)
    q = p.roll(1, dims=0)[:2]
    decisions = torch_decisions(torch.Generator(device).manual_seed(4))
    for _ in range(total // batch):
        rows = q.expand(batch, 2, 2, 7)
        drafts = Drafts.of_paths(decisions.categorical(rows), rows, p.expand(batch, 2, 3, 7))
        emitted = verifiers.get(name).verify(drafts, decisions).emitted
        possible = torch.cat([p > 0, torch.ones_like(p[:, :1], dtype=torch.bool)], dim=1)
        # -1, the padding after an emission, is the added last column.
        assert possible[torch.arange(3, device=device), emitted].all()


@pytest.mark.cuda
@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("name", ["token", "block", "greedy_multipath_block"])
def test_large_rows_give_lawful_verdicts(name, size, device, dtype):
    """The largest holds more than 2^31 bytes a tensor."""
    vocab, batch, length, paths = size
    generator = torch.Generator(device).manual_seed(5)
    shape = (batch, 1, length + 1, vocab)
    rows = [torch.empty(shape, device=device).exponential_(generator=generator) ** 3 for _ in range(2)]
    p, q = ((row / row.sum(-1, keepdim=True)).to(dtype).expand(-1, paths, -1, -1) for row in rows)
    decisions = torch_decisions(generator)
    verdict = verifiers.get(name).verify(
        Drafts.of_paths(decisions.categorical(q[:, :, :-1]), q[:, :, :-1], p), decisions
    )
    assert ((verdict.num_accepted >= 0) & (verdict.num_accepted <= length)).all()
    row = p[torch.arange(batch, device=device), 0, verdict.num_accepted]  # alike on all paths
    assert (row.gather(1, verdict.next_token[:, None]) > 0).all()


@pytest.mark.cuda
def test_index_products_beyond_31_bits(device):
    """B (L+1) V > 2^31: the last requests are read from where they are."""
    vocab, length = 151_936, 8
    batch = 2**31 // (vocab * (length + 1)) + 2
    rows = torch.zeros((batch, 1, length + 1, vocab), dtype=torch.bfloat16, device=device)
    rows[..., -1] = 1
    tokens = torch.full((batch, 1, length), vocab - 1, device=device)
    verdict = verifiers.get("token").verify(
        Drafts.of_paths(tokens, rows[:, :, :-1], rows), torch_decisions(torch.Generator(device))
    )
    assert (verdict.num_accepted == length).all()
    assert (verdict.next_token == vocab - 1).all()
