"""Balanced selection down a draft tree: at every node one of its independent children."""

from verifiers.arrays import Array, arange_like, kept, namespace, ones, working_rows, zeros
from verifiers.parts.balanced_selection import balanced_plan, chances_to_be_selected
from verifiers.parts.tree_places import places_of
from verifiers.parts.walk import on_the_first_of_equals
from verifiers.trees import TreeDrafts


def selection_down(drafts: TreeDrafts) -> tuple[Array, Array]:
    """Return the chance [B, N+1] of each leaf to be selected, and the law [B, N+1, V] of the selected child.

    Node 0 is the root, node 1 + i is place i; a leaf's child has law zero. Nodes are planned all at once, and
    only those with children, which one look at the shapes of all trees finds.
    """
    xp = namespace(drafts.draft_probs)
    places, nodes, vocab = places_of(drafts), drafts.places + 1, drafts.vocab_size
    request, node = arange_like(places.row, drafts.batch), arange_like(places.row, nodes)
    here = places.present[:, None, :] & (places.row[:, None, :] == node[None, :, None])
    count = xp.sum(xp.astype(here, xp.int64), axis=-1)
    inner = xp.nonzero(xp.reshape(count, (-1,)) > 0)[0]
    laws = zeros(working_rows(drafts.target_probs))
    reached = kept(node[None, :] == 0, ones(laws[:, :, 0]))
    if inner.shape[0]:
        target, draft = (
            xp.reshape(probs, (-1, vocab))[inner] for probs in (drafts.target_probs, drafts.draft_probs)
        )
        plan = balanced_plan(target, draft, xp.reshape(count, (-1,))[inner])
        xp.reshape(laws, (-1, vocab))[inner] = plan.law
        # The children of a node are a line of their own; empty places go to one more, the last.
        width = arange_like(inner, 1 + int(xp.max(places.rank)))
        line = xp.searchsorted(inner, places.row + nodes * request[:, None])
        line = xp.where(places.present, line, inner.shape[0])
        tokens = vocab + width[None, :] + 0 * arange_like(inner, inner.shape[0] + 1)[:, None]
        tokens[line, places.rank] = drafts.tokens
        drafted, tokens = tokens[:-1] < vocab, tokens[:-1]
        chances = chances_to_be_selected(plan, kept(drafted, tokens), drafted)
        chances = on_the_first_of_equals(chances, tokens)  # which has the children
        chances = xp.concat([chances, zeros(chances[:1])])[line, places.rank]
        for place in range(drafts.places):
            above = reached[request, places.row[:, place]]
            reached[:, place + 1] = above * chances[:, place]
    return kept(count == 0, reached), laws
