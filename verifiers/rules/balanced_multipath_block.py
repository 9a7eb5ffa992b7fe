"""Balanced multi-path block verification: select a path by balanced selection, then verify it as a block."""

from verifiers.arrays import all_true, namespace, pick, row_at, working_rows, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.balanced_selection import balanced_plan, select
from verifiers.parts.block_path import verify_path
from verifiers.parts.tree_block import verify_way
from verifiers.parts.tree_selection import selection_down
from verifiers.trees import ROOT, Siblings, TreeDrafts, TreeVerdict


class BalancedMultipathBlockVerifier:
    """Block verification with the rows s^(m) of balanced selection in place of q (ours).

    m is the number of paths that pass the node. Proof of losslessness:
    docs/verifiers/balanced_multipath_block.md.
    """

    traits = Traits(any_order=True)
    accepts = frozenset({Siblings.INDEPENDENT, Siblings.PATHS})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, node by node, and verify it."""
        xp = namespace(drafts.draft_probs)
        present = all_true(drafts.tokens[:, :, 0])
        path = zeros(drafts.tokens[:, 0, 0])
        laws = []
        for depth in range(drafts.draft_length):
            tokens = drafts.tokens[:, :, depth]
            target, draft = (row_at(rows, path, depth) for rows in (drafts.target_probs, drafts.draft_probs))
            plan = balanced_plan(target, draft, xp.sum(xp.astype(present, xp.int64), axis=-1))
            path = select(plan, tokens, present, decisions)
            present = present & (tokens == pick(tokens, path)[:, None])
            laws.append(plan.law)
        tokens, target = pick(drafts.tokens, path), working_rows(pick(drafts.target_probs, path))
        tau, next_token = verify_path(tokens, target, xp.stack(laws, axis=1), decisions)
        return Verdict(tau, path, next_token, drafts.tokens)

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Select one leaf of every request, by one decision, and verify the path to it; m counts siblings."""
        chances, laws = selection_down(drafts)
        leaf = decisions.categorical(chances) + ROOT
        return verify_way(drafts, leaf, laws, decisions)
