"""Greedy multi-path block verification (GBV): keep the highest path, then verify it as a block."""

from verifiers.arrays import all_true, in_working_precision, namespace, pick, row_at, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.block_path import verify_path
from verifiers.parts.path_order import child_alpha, highest_path_row, keep_highest, ranks
from verifiers.parts.walk import first_true


class GreedyMultipathBlockVerifier:
    """Thomas & Pal (arXiv 2602.16961): block verification with q^Gamma in place of q.

    Paths are compared by p/q node by node (see `verifiers.parts.path_order`, also for ties).
    """

    traits = Traits(any_order=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select the highest path of every request and verify it."""
        xp = namespace(drafts.draft_probs)
        present = all_true(drafts.tokens[:, :, 0])
        alpha = zeros(in_working_precision(drafts.draft_probs[:, 0, 0, 0]))
        rows = []
        for depth in range(drafts.draft_length):
            path = first_true(present)
            draft = row_at(drafts.draft_probs, path, depth)
            rank = ranks(row_at(drafts.target_probs, path, depth), draft)
            rows.append(highest_path_row(draft, rank, alpha, drafts.num_paths))
            present = keep_highest(present, rank, drafts.tokens[:, :, depth])
            alpha = child_alpha(draft, rank, alpha, pick(drafts.tokens[:, :, depth], first_true(present)))
        path = first_true(present)
        tau, next_token = verify_path(
            pick(drafts.tokens, path), pick(drafts.target_probs, path), xp.stack(rows, axis=1), decisions
        )
        return Verdict(tau, path, next_token, drafts.tokens)
