"""EAGLE's walks down draft trees on paths, by the project's own rules for siblings.

From what `evaluate_posterior` of eagle/model/utils.py computes at a temperature above 0: EAGLE 2 and 3 keep x
with probability p(x), else take x out of p (`verifiers.rules.eagle`). EAGLE 1 keeps x with probability
p(x)/q(x), else goes on with (p - q)+ and with q without x (`verifiers.rules.recursive_rejection_distinct`).
"""

from dataclasses import dataclass

from verifiers.arrays import namespace, normalised
from verifiers.interface import DecisionSource, Drafts, Siblings, Traits, Verdict
from verifiers.parts.walk import OneStepRule, walk
from verifiers.rules.eagle import accept_or_remove


@dataclass(frozen=True)
class SiblingWalk:
    """A walk down a draft tree by one of EAGLE's rules.

    ``raw_bonus``: the bonus token is sampled from the model's distribution before it was processed, here with
    temperature 2: proportional to p^2 where p is the processed one.
    """

    drafting: Siblings = Siblings.DISTINCT
    rule: OneStepRule = accept_or_remove
    raw_bonus: bool = False

    @property
    def traits(self) -> Traits:
        """How its drafts are sampled."""
        return Traits(drafting=self.drafting)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        if self.raw_bonus:
            paths = drafts.paths
            rows, last = paths.target_probs[:, :, :-1], paths.target_probs[:, :, -1:]
            raw = namespace(rows).concat([rows, normalised(last * last)], axis=2)
            drafts = Drafts.of_paths(paths.tokens, paths.draft_probs, raw)
        return walk(drafts, decisions, self.rule)
