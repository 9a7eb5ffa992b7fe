"""Token verification: accept drafted tokens one by one, correct the first that fails."""

from verifiers.arrays import minimum_one, ones, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.residual import acceptance_ratios, draw_correction, first_failure


class TokenVerifier:
    """Accept x_i with probability min(1, p/q); the first rejected one is redrawn from (p - q)+.

    Leviathan et al. (arXiv 2211.17192, algorithm 1) and Chen et al. (2302.01318, algorithm 2). Verifies the
    first path; further paths are ignored.
    """

    traits = Traits(single_path=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        tokens, target, draft = drafts.tokens[:, 0], drafts.target_probs[:, 0], drafts.draft_probs[:, 0]
        chances = minimum_one(acceptance_ratios(target, draft, tokens))
        tau = decisions.categorical(first_failure(chances))
        next_token = draw_correction(target, draft, tau, ones(chances[:, 0]), decisions)
        return Verdict(tau, zeros(tau), next_token, drafts.tokens)
