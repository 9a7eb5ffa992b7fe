"""Block verification: decide on the whole path at once; the optimum for a single path."""

from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.path import verify_path
from verifiers.parts.walk import SAMPLED


class BlockVerifier:
    """Sun et al. (arXiv 2403.10444, algorithm 2). Verifies the path of first children, which may end early.

    Its first token has law q at every node, so other drafts are ignored.
    """

    traits = Traits(single_path=True)
    accepts = SAMPLED

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify one path of every request."""
        path = drafts.first_path()
        tau, next_token = verify_path(path, drafts.target, drafts.draft, decisions)
        return Verdict(path.node(tau), next_token, drafts)
