"""Balanced multi-path block verification: select a path by balanced selection, then verify it as a block."""

from verifiers.arrays import all_true, arange_like, namespace, pick, working_rows, zeros
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.balanced_selection import balanced_plan, select
from verifiers.parts.block_path import verify_path


class BalancedMultipathBlockVerifier:
    """Block verification with the rows s^(m) of balanced selection in place of q (ours).

    m is the number of paths that pass the node. Proof of losslessness:
    docs/verifiers/balanced_multipath_block.md.
    """

    any_order: bool = True

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, node by node, and verify it."""
        wide = drafts.in_working_precision()
        xp = namespace(wide.draft_probs)
        request = arange_like(wide.tokens, wide.batch)
        present = all_true(wide.tokens[:, :, 0])
        path = zeros(wide.tokens[:, 0, 0])
        rows = []
        for depth in range(wide.draft_length):
            tokens = wide.tokens[:, :, depth]
            target, draft = wide.target_probs[request, path, depth], wide.draft_probs[request, path, depth]
            num_drafts = xp.sum(xp.astype(present, xp.int64), axis=-1)
            plan = balanced_plan(target, draft, num_drafts)
            path = select(plan, tokens, present, decisions)
            present = present & (tokens == pick(tokens, path)[:, None])
            rows.append(plan.law)
        target_rows = working_rows(pick(wide.target_probs, path))
        tau, next_token = verify_path(pick(wide.tokens, path), target_rows, xp.stack(rows, axis=1), decisions)
        return Verdict(tau, path, next_token, drafts.tokens)
