"""Sample the target at every position of the draft, keep what the draft guessed right."""

from dataclasses import dataclass

from verifiers.arrays import all_true, namespace, pick, zeros
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.walk import first_true


@dataclass(frozen=True)
class SampleAndMatchVerifier:
    """Emit the target's own draws up to and including the first that differs from the draft.

    Lossless for any draft, since every emitted token is a target draw; accepts sum_x p q per position.
    Verifies the first path; further paths are ignored.
    """

    single_path: bool = True

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        wide = drafts.in_working_precision()
        xp = namespace(wide.tokens)
        drawn = decisions.categorical(wide.target_probs[:, 0])
        differs = drawn[:, : wide.draft_length] != wide.tokens[:, 0]
        tau = first_true(xp.concat([differs, all_true(differs[:, :1])], axis=1))
        return Verdict(tau, zeros(tau), pick(drawn, tau), drafts.tokens)
