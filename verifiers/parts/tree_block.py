"""Block verification of one path of a draft tree, from the root to a leaf."""

from verifiers.arrays import Array, kept, namespace, pick_each, working_rows
from verifiers.interface import DecisionSource
from verifiers.parts.block_path import verify_path
from verifiers.trees import ROOT, TreeDrafts, TreeVerdict, above, way_to


def verify_way(drafts: TreeDrafts, leaf: Array, laws: Array, decisions: DecisionSource) -> TreeVerdict:
    """Verify the path to ``leaf`` int [B], a place or `ROOT`, as a block.

    ``laws`` [B, N+1, V]: the rows by which the path was drawn or selected, zeros at ``leaf``. Behind a leaf
    nothing is drafted: with a draft row of zeros no longer prefix is accepted, and all of p is left.
    """
    xp = namespace(drafts.tokens)
    way, _ = way_to(drafts.parents, leaf)
    rows = xp.concat([0 * way[:, :1], way + 1], axis=1)
    target = pick_each(working_rows(drafts.target_probs), rows)
    tokens = pick_each(drafts.tokens, kept(way >= 0, way))
    tau, next_token = verify_path(tokens, target, pick_each(laws, rows[:, :-1]), decisions)
    node = xp.where(tau > 0, above(way, tau - 1), ROOT)
    return TreeVerdict(node, next_token, drafts)
