"""Batched torch verifiers with the engines' random idioms."""

import pytest

from lab.specimens.registry import specimens
from tests.spec_oracle.exact.interception.support import distance

torch = pytest.importorskip("torch")

from lab.specimens.foreign import torch_batches as batches  # noqa: E402
from tests.strategies import at_night  # noqa: E402

TORCH = [specimen for specimen in specimens().values() if specimen.array == "torch"]
CONTROLS = {specimen.name: specimen.function for specimen in TORCH if specimen.is_control}
DEFECTS = {specimen.name: specimen.function for specimen in TORCH if not specimen.is_control}


def distributions_loop(x, q, p, generator):
    """`torch.distributions` in a Python loop that reads its decisions: too slow for the kill matrix."""
    tau = torch.zeros(len(x), dtype=torch.int64)
    residuals, ratios = batches._residuals(q, p), batches._ratios(x, q, p)
    for b in range(len(x)):
        for ratio in ratios[b]:
            if torch.distributions.Bernoulli(ratio.clamp(max=1)).sample().item() == 0:
                break
            tau[b] += 1
    token = torch.distributions.Categorical(probs=batches._row(residuals, tau)).sample()
    return batches._emit(x, tau, token)


@pytest.mark.parametrize(
    "verify", [*CONTROLS.values(), distributions_loop], ids=[*CONTROLS, "distributions-loop"]
)
@pytest.mark.parametrize(("seed", "vocab_size", "draft_length"), [(0, 3, 1), *at_night((1, 4, 2))])
def test_controls_are_lossless(verify, seed, vocab_size, draft_length):
    assert distance(verify, seed, vocab_size, draft_length, "torch") < 1e-12


@pytest.mark.parametrize("verify", DEFECTS.values(), ids=DEFECTS)
def test_defects_are_lossy(verify):
    assert distance(verify, 1, 3, 2, "torch") > 1e-4
