"""Random rows with zeros, the drafts drawn from them, and their copies on a device."""

import numpy as np
import torch

from verifiers import Drafts, Paths, numpy_decisions
from verifiers.arrays import normalised


def drawn_drafts(vocab, batch, length, paths, seed=0):
    """Draw float64 rows with zeros, shared by all paths of a position, and the drafts from them."""
    rng = np.random.default_rng(seed)
    p, q = rng.exponential(size=(2, batch, 1, length + 1, vocab)) ** 3
    for rows in (p, q):
        rows[rng.random(rows.shape) < 0.2] = 0
        rows[..., 0] += 1e-3
    p, q = normalised(np.repeat(p, paths, 1)), normalised(np.repeat(q, paths, 1))[:, :, :-1]
    return Paths(numpy_decisions(rng).categorical(q), q, p)


def on_device(drafts, device, dtype):
    """Return paths as drafts, in tensors, their rows rounded to ``dtype``."""
    return Drafts.of_paths(
        torch.from_numpy(drafts.tokens).to(device),
        torch.from_numpy(drafts.draft_probs).to(device, dtype),
        torch.from_numpy(drafts.target_probs).to(device, dtype),
    )


def rounded(drafts, dtype):
    """Return paths as drafts, in numpy arrays of at least float32, of the values that ``dtype`` rounds to."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    tensors = on_device(drafts, "cpu", dtype)
    return tensors.converted(lambda rows: rows.to(wide).numpy(), lambda ids: ids.numpy())
