"""Greedy multi-path block verification (GBV): keep the highest path, then verify it as a block."""

from dataclasses import dataclass

from verifiers.arrays import all_true, arange_like, namespace, pick, zeros
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.block_path import verify_path
from verifiers.parts.path_order import child_alpha, highest_path_row, keep_highest, ranks
from verifiers.parts.walk import first_true


@dataclass(frozen=True)
class GreedyMultipathBlockVerifier:
    """Thomas & Pal (arXiv 2602.16961): block verification with q^Gamma in place of q.

    Paths are compared by p/q node by node (see `verifiers.parts.path_order`, also for ties).
    """

    any_order: bool = True

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select the highest path of every request and verify it."""
        wide = drafts.in_working_precision()
        xp = namespace(wide.draft_probs)
        request = arange_like(wide.tokens, wide.batch)
        present = all_true(wide.tokens[:, :, 0])
        alpha = zeros(wide.draft_probs[:, 0, 0, 0])
        rows = []
        for depth in range(wide.draft_length):
            path = first_true(present)
            draft = wide.draft_probs[request, path, depth]
            rank = ranks(wide.target_probs[request, path, depth], draft)
            rows.append(highest_path_row(draft, rank, alpha, wide.num_paths))
            present = keep_highest(present, rank, wide.tokens[:, :, depth])
            alpha = child_alpha(draft, rank, alpha, pick(wide.tokens[:, :, depth], first_true(present)))
        path = first_true(present)
        tau, next_token = verify_path(
            pick(wide.tokens, path), pick(wide.target_probs, path), xp.stack(rows, axis=1), decisions
        )
        return Verdict(tau, path, next_token, drafts.tokens)
