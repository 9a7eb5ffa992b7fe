"""Batched torch verifiers with the engines' random idioms."""

import pytest

from spec_oracle.specimens.foreign import torch_specimens
from tests.spec_oracle.exact.interception.support import distance

torch = pytest.importorskip("torch")

SPECIMENS = torch_specimens()
CONTROLS = [name for name, specimen in SPECIMENS.items() if specimen.lossless]
DEFECTS = [name for name, specimen in SPECIMENS.items() if not specimen.lossless]


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize(("seed", "vocab_size", "draft_length"), [(0, 3, 1), (1, 4, 2)])
def test_controls_are_lossless(name, seed, vocab_size, draft_length):
    assert distance(SPECIMENS[name].verify, seed, vocab_size, draft_length, torch.tensor) < 1e-12


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_lossy(name):
    assert distance(SPECIMENS[name].verify, 1, 3, 2, torch.tensor) > 1e-4
