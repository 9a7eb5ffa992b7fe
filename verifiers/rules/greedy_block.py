"""Greedy block verification of a single path, with carry-over."""

from verifiers.arrays import zeros
from verifiers.interface import DecisionSource, Drafts, Siblings, State, Traits, Verdict
from verifiers.rules.greedy_multipath_carry import GreedyMultipathCarryVerifier


class GreedyBlockVerifier:
    """Accept w(v) = min(p(v), q(v)) at every node and carry the debt over (arXiv 2403.10444, appendix).

    Verifies the first path; further paths are ignored.
    """

    traits = Traits(single_path=True, paths_only=True)
    accepts = frozenset({Siblings.PATHS})

    def initial_state(self, batch: int) -> State:  # noqa: ARG002  # part of the interface
        """Return the fresh state of any number of requests."""
        return ()

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify the first path of every request against the target that ``state`` still owes."""
        paths = drafts.paths
        first = Drafts.of_paths(paths.tokens[:, :1], paths.draft_probs[:, :1], paths.target_probs[:, :1])
        verdict, next_state = GreedyMultipathCarryVerifier().verify(first, decisions, state)
        path = zeros(verdict.node)
        return Verdict.on_paths(drafts, path, verdict.num_accepted, verdict.next_token), next_state
