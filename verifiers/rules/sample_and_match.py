"""Sample the target at every position of the draft, keep what the draft guessed right."""

from verifiers.arrays import arange_like, in_working_precision, kept, namespace, pick
from verifiers.interface import DecisionSource, Drafts, Siblings, Traits, Verdict
from verifiers.parts.path import first_failure


class SampleAndMatchVerifier:
    """Emit the target's own draws up to and including the first that differs from the draft.

    Lossless for any draft, since every emitted token is a target draw; accepts sum_x p q per position.
    Whether a draw is the drafted token is decided first, and which other one it is, after that. Verifies the
    path of first children; other drafts are ignored.
    """

    traits = Traits(single_path=True)
    accepts = frozenset(Siblings)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify one path of every request."""
        path = drafts.first_path()
        xp, length = namespace(drafts.tokens), path.tokens.shape[1]
        hits = in_working_precision(drafts.target.entries(path.contexts, path.tokens))
        hits = hits if path.length is None else kept(path.present, hits)
        tau = decisions.categorical(first_failure(hits))
        row = in_working_precision(drafts.target.row(path.node(tau)))
        at_end = tau == (length if path.length is None else path.length)
        refused = pick(path.tokens, xp.where(tau < length, tau, 0 * tau))
        other = arange_like(row, row.shape[1])[None, :] != refused[:, None]
        following = decisions.categorical(kept(other | at_end[:, None], row))
        return Verdict(path.node(tau), following, drafts)
