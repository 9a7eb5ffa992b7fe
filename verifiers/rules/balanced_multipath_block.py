"""Balanced multi-path block verification: select a path by balanced selection, then verify it as a block."""

from verifiers.arrays import arange_like, filled, namespace, pick, working_rows, zeros
from verifiers.interface import ROOT, DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.balanced_selection import balanced_chances
from verifiers.parts.path import verify_selected
from verifiers.parts.walk import INDEPENDENT, ActiveDecisions, first_true


class BalancedMultipathBlockVerifier:
    """Block verification with the rows s^(m) of balanced selection in place of q (ours).

    m is the number of drafts at the node: of the paths that pass it, or of its children. Proof of
    losslessness: docs/rules/balanced_multipath_block.md.
    """

    traits = Traits(any_order=True)
    accepts = INDEPENDENT

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, node by node, and verify it."""
        xp = namespace(drafts.tokens)
        node, at = filled(drafts.tokens[:, 0], ROOT), ROOT
        laws = []
        for depth in range(drafts.depth):
            children = drafts.children(node, depth)
            going = xp.any(children.present, axis=-1)
            first = arange_like(node, children.tokens.shape[1])[None, :] == 0
            present = children.present | (first & ~going[:, None])
            rows = drafts.target.row(at), drafts.draft.row(at)
            chances, law = balanced_chances(*rows, children.tokens, present)
            token = pick(children.tokens, ActiveDecisions(decisions, going).categorical(chances))
            child = first_true(children.present & (children.tokens == token[:, None]))
            node = at = xp.where(going, pick(children.places, child), node)
            laws.append(law)
        path = drafts.path_to(node)
        if not laws:
            laws.append(zeros(working_rows(drafts.target.row(ROOT))))
        after = [drafts.target.row(path.after(depth)) for depth in range(len(laws) + 1)]
        target = working_rows(xp.stack(after, axis=1))
        return Verdict(*verify_selected(path, target, xp.stack(laws, axis=1), decisions), drafts)
