"""Token verification: accept drafted tokens one by one, correct the first that fails."""

from verifiers.arrays import minimum_one, ones
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.path import acceptance_ratios, draw_correction, first_failure
from verifiers.parts.walk import SAMPLED


class TokenVerifier:
    """Accept x_i with probability min(1, p/q); the first rejected one is redrawn from (p - q)+.

    Leviathan et al. (arXiv 2211.17192, algorithm 1) and Chen et al. (2302.01318, algorithm 2). Verifies the
    path of first children; other drafts are ignored.
    """

    traits = Traits(single_path=True)
    accepts = SAMPLED

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify one path of every request."""
        path = drafts.first_path()
        chances = minimum_one(acceptance_ratios(path, drafts.target, drafts.draft))
        tau = decisions.categorical(first_failure(chances))
        scale = ones(chances[:, 0])
        next_token = draw_correction(path, drafts.target, drafts.draft, tau, scale, decisions)
        return Verdict(path.node(tau), next_token, drafts)
