"""Block verification: decide on the whole path at once; the optimum for a single path."""

from verifiers.arrays import zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.block_path import verify_path


class BlockVerifier:
    """Sun et al. (arXiv 2403.10444, algorithm 2). Verifies the first path; further paths are ignored."""

    traits = Traits(single_path=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        tau, next_token = verify_path(
            drafts.tokens[:, 0], drafts.target_probs[:, 0], drafts.draft_probs[:, 0], decisions
        )
        return Verdict(tau, zeros(tau), next_token, drafts.tokens)
