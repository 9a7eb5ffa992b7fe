"""Sample the target at every position of the draft, keep what the draft guessed right."""

from verifiers.arrays import arange_like, in_working_precision, kept, namespace, pick, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.residual import along_path, first_failure


class SampleAndMatchVerifier:
    """Emit the target's own draws up to and including the first that differs from the draft.

    Lossless for any draft, since every emitted token is a target draw; accepts sum_x p q per position.
    Whether a draw is the drafted token is decided first, and which other one it is, after that. Verifies the
    first path; further paths are ignored.
    """

    traits = Traits(single_path=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        xp = namespace(drafts.tokens)
        tokens, target, length = drafts.tokens[:, 0], drafts.target_probs[:, 0], drafts.draft_length
        hits = in_working_precision(along_path(target[:, :length], tokens))
        tau = decisions.categorical(first_failure(hits))
        row = in_working_precision(pick(target, tau))
        refused = pick(tokens, xp.where(tau < length, tau, zeros(tau)))
        other = arange_like(row, row.shape[1])[None, :] != refused[:, None]
        following = decisions.categorical(kept(other | (tau == length)[:, None], row))
        return Verdict(tau, zeros(tau), following, drafts.tokens)
