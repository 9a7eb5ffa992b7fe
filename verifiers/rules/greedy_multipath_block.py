"""Greedy multi-path block verification (GBV): keep the highest path, then verify it as a block."""

from verifiers.arrays import all_true, in_working_precision, namespace, pick, zeros
from verifiers.interface import DecisionSource, Drafts, Siblings, Traits, Verdict
from verifiers.parts.path import verify_selected
from verifiers.parts.path_order import child_alpha, highest_path_row, keep_highest, path_row, ranks
from verifiers.parts.walk import first_true


class GreedyMultipathBlockVerifier:
    """Thomas & Pal (arXiv 2602.16961): block verification with q^Gamma in place of q.

    Paths are compared by p/q node by node (see `verifiers.parts.path_order`, also for ties).
    """

    traits = Traits(any_order=True, paths_only=True)
    accepts = frozenset({Siblings.PATHS})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select the highest path of every request and verify it."""
        paths = drafts.paths
        xp = namespace(paths.tokens)
        present = all_true(paths.tokens[:, :, 0])
        alpha = zeros(in_working_precision(paths.draft_probs[:, 0, 0, 0]))
        rows = []
        for depth in range(paths.draft_length):
            path = first_true(present)
            draft = path_row(paths.draft_probs, path, depth)
            rank = ranks(path_row(paths.target_probs, path, depth), draft)
            rows.append(highest_path_row(draft, rank, alpha, paths.num_paths))
            present = keep_highest(present, rank, paths.tokens[:, :, depth])
            alpha = child_alpha(draft, rank, alpha, pick(paths.tokens[:, :, depth], first_true(present)))
        path = first_true(present)
        along = drafts.path_to((paths.draft_length - 1) * paths.num_paths + path)
        target = pick(paths.target_probs, path)
        return Verdict(*verify_selected(along, target, xp.stack(rows, axis=1), decisions), drafts)
