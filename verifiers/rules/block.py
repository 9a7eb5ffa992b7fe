"""Block verification: decide on the whole path at once; the optimum for a single path."""

from verifiers.arrays import arange_like, filled, kept, namespace, working_rows, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.block_path import verify_path
from verifiers.parts.tree_block import verify_way
from verifiers.trees import ROOT, Siblings, TreeDrafts, TreeVerdict


class BlockVerifier:
    """Sun et al. (arXiv 2403.10444, algorithm 2). Verifies the first path; further paths are ignored."""

    traits = Traits(single_path=True)
    accepts = frozenset({Siblings.INDEPENDENT, Siblings.PATHS, Siblings.DISTINCT, Siblings.BEAM})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        tau, next_token = verify_path(
            drafts.tokens[:, 0], drafts.target_probs[:, 0], drafts.draft_probs[:, 0], decisions
        )
        return Verdict(tau, zeros(tau), next_token, drafts.tokens)

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Verify the path of first children, which may end early; its first token has law q at every node."""
        xp = namespace(drafts.tokens)
        leaf, present = filled(drafts.tokens[:, 0], ROOT), drafts.present
        for place in range(drafts.places):  # a parent comes before its children
            follows = present[:, place] & (drafts.parents[:, place] == leaf)
            leaf = xp.where(follows, place, leaf)
        inner = arange_like(leaf, drafts.places + 1)[None, :] != leaf[:, None] + 1
        return verify_way(drafts, leaf, kept(inner[:, :, None], working_rows(drafts.draft_probs)), decisions)
