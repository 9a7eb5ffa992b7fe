"""A request among others: batches in which only one request has anything to decide."""

import numpy as np

from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.trees import ids_of_interest
from verifiers import Drafts


def among_mates(drafts: Drafts, shape: Shape, seed: int) -> Drafts:
    """Return the batch of a shape with this request at its place.

    The others have certain rows, target and draft alike, other ones at every position of every request: they
    cost no branches, and whoever reads a row of theirs emits what is impossible.
    """
    if shape.batch == 1:
        return drafts
    rng = np.random.default_rng([seed, 8])
    ids = ids_of_interest(shape.vocab_size)
    size = (shape.batch, 1, shape.draft_length + 1)
    certain = np.where(
        rng.random(size) < 0.5, rng.choice(ids, size), rng.integers(shape.vocab_size, size=size)
    )
    target = np.zeros((*size, shape.vocab_size))
    np.put_along_axis(target, certain[..., None], 1.0, axis=-1)
    arrays = (certain[..., :-1], target[:, :, :-1], target)
    batch = tuple(np.repeat(array, shape.num_paths, axis=1) for array in arrays)
    for array, own in zip(batch, (drafts.tokens, drafts.draft_probs, drafts.target_probs), strict=True):
        array[shape.request] = own[0]
    return Drafts(*batch)
