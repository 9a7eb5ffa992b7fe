"""Greedy multi-path block verification (GBV): keep the highest path, then verify it as a block."""

from verifiers.arrays import in_working_precision, namespace, pick
from verifiers.interface import DecisionSource, Drafts, Siblings, Traits, Verdict
from verifiers.parts.path import verify_selected
from verifiers.rules.greedy_multipath_carry import Layers, descend


class GreedyMultipathBlockVerifier:
    """Thomas & Pal (arXiv 2602.16961): block verification with q^Gamma in place of q.

    Paths are compared by p/q node by node (see `verifiers.parts.path_order`, also for ties).
    """

    traits = Traits(any_order=True, paths_only=True)
    accepts = frozenset({Siblings.PATHS})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select the highest path of every request and verify it."""
        paths = drafts.paths
        none = in_working_precision(paths.draft_probs[:, 0, :0, 0])
        steps, path, _ = descend(paths, Layers(none, none, none))
        laws = namespace(none).stack([step.law for step in steps], axis=1)
        along = drafts.path_to((paths.draft_length - 1) * paths.num_paths + path)
        return Verdict(*verify_selected(along, pick(paths.target_probs, path), laws, decisions), drafts)
