"""The law of `Siblings.TOP_AND_SAMPLED`: the likeliest tokens as drafts, and one sampled beside them."""

from verifiers.arrays import Array, arange_like, kept, namespace, normalised, ones


def without_top(draft_row: Array, count: Array) -> tuple[Array, Array]:
    """Return q [B, V] without its ``count`` likeliest tokens, and the likeliest of the rest; both int [B].

    Of equally likely tokens the smaller one goes first; ``count`` is at most V.
    """
    xp = namespace(draft_row)
    tokens, gone = arange_like(draft_row, draft_row.shape[-1])[None, :], draft_row < 0
    for taken in range(int(xp.max(count))):
        top = _likeliest(draft_row, gone)
        gone = gone | ((tokens == top[:, None]) & (count > taken)[:, None])
    return kept(~gone, draft_row), _likeliest(draft_row, gone)


def _likeliest(draft_row: Array, gone: Array) -> Array:
    xp = namespace(draft_row)
    return xp.argmax(xp.where(gone, -ones(draft_row), draft_row), axis=-1)


def sampled_law(draft_row: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the one sampled draft at a node that ``paths_here`` int [B] paths pass.

    It is q without the ``paths_here - 1`` likeliest tokens, renormalised; q itself when nothing is left.
    """
    xp = namespace(draft_row)
    rest, _ = without_top(draft_row, paths_here - 1)
    empty = xp.sum(rest, axis=-1, keepdims=True) <= 0
    return xp.where(empty, draft_row, normalised(rest))


def child_law(draft_row: Array, earlier: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the next child of a node where ``earlier`` int [B] paths have one already."""
    xp = namespace(draft_row)
    vocab = draft_row.shape[-1]
    _, top = without_top(draft_row, earlier % vocab)
    point = kept(arange_like(draft_row, vocab)[None, :] == top[:, None], ones(draft_row))
    return xp.where((earlier < paths_here - 1)[:, None], point, sampled_law(draft_row, paths_here))
