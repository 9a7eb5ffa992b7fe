"""The law of `Drafting.TOP_AND_SAMPLED`: the likeliest tokens as drafts, and one sampled beside them."""

from verifiers.arrays import Array, arange_like, kept, namespace, normalised, ones


def likeliest(draft_row: Array) -> Array:
    """Return the tokens in descending order of q, int [B, V]; equal ones in ascending order of the token."""
    xp = namespace(draft_row)
    return xp.argsort(-draft_row, axis=-1, stable=True)


def sampled_law(draft_row: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the one sampled draft at a node that ``paths_here`` int [B] paths pass.

    It is q without the ``paths_here - 1`` likeliest tokens, renormalised; q itself when nothing is left.
    """
    xp = namespace(draft_row)
    order = likeliest(draft_row)
    rank = xp.argsort(order, axis=-1)
    rest = kept(rank >= (paths_here - 1)[:, None], draft_row)
    empty = xp.sum(rest, axis=-1, keepdims=True) <= 0
    return xp.where(empty, draft_row, normalised(rest))


def child_law(draft_row: Array, earlier: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the next child of a node where ``earlier`` int [B] paths have one already."""
    xp = namespace(draft_row)
    vocab = draft_row.shape[-1]
    top = xp.take_along_axis(likeliest(draft_row), (earlier % vocab)[:, None], axis=-1)
    point = kept(arange_like(draft_row, vocab)[None, :] == top, ones(draft_row))
    return xp.where((earlier < paths_here - 1)[:, None], point, sampled_law(draft_row, paths_here))
