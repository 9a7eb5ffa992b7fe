"""Walking down a draft tree with a one-step rule: any rule of `parts.walk`, on trees of any shape.

Lossless if the rule is lossless for the law of siblings at every node (`verifiers.trees.Siblings`), however
many there are: nothing has been looked at that lies below the token which the rule returns.
"""

from dataclasses import dataclass

from verifiers.arrays import (
    all_true,
    arange_like,
    filled,
    in_working_precision,
    kept,
    namespace,
    pick,
    zeros,
)
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.tree_places import places_of
from verifiers.parts.walk import ActiveDecisions, Node, OneStepRule, first_true
from verifiers.trees import ROOT, Siblings, TreeDrafts, TreeVerdict

_ANY = Traits()


@dataclass(frozen=True)
class TreeWalk:
    """A verifier that walks down draft trees with ``rule``, lossless for siblings whose law it ``accepts``.

    ``max_depth``: how many tokens are accepted at most, None: as many as there are places. The rule is run so
    often, so the depth of the deepest tree saves time. No number costs losslessness.
    ``max_children``: how many siblings are shown to the rule, None: all places. Take no less than a node has:
    a rule that needs its last sibling would miss it. ``traits`` are those of the rule on paths.
    """

    rule: OneStepRule
    accepts: frozenset[Siblings]
    max_depth: int | None = None
    max_children: int | None = None
    traits: Traits = _ANY

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Walk down from the root; a token of the target follows a leaf, or the node at ``max_depth``."""
        xp = namespace(drafts.tokens)
        places = places_of(drafts)
        tokens = kept(places.present, drafts.tokens)
        node = filled(tokens[:, 0], ROOT)
        next_token, stopped = zeros(tokens[:, 0]), ~all_true(tokens[:, 0])
        # Requests that have nothing to decide show the rule some node with a draft.
        some = pick(places.row, first_true(places.present))
        anything = arange_like(tokens, drafts.places)[None, :] == 0
        for _ in range(drafts.places if self.max_depth is None else min(self.max_depth, drafts.places)):
            here = places.present & (drafts.parents == node[:, None]) & ~stopped[:, None]
            walking = xp.any(here, axis=-1)
            row = xp.where(walking, node + 1, some)
            shown = places.present & (places.row == row[:, None])
            shown = shown | (anything & ~xp.any(shown, axis=-1)[:, None])
            target, draft = (
                in_working_precision(pick(probs, row)) for probs in (drafts.target_probs, drafts.draft_probs)
            )
            first = xp.argsort(xp.astype(~shown, xp.int64), axis=1, stable=True)[:, : self.max_children]
            siblings = (xp.take_along_axis(of, first, axis=1) for of in (tokens, shown))
            token = self.rule(Node(target, draft, *siblings), ActiveDecisions(decisions, walking))
            matching = here & (tokens == token[:, None])
            goes_on = xp.any(matching, axis=-1)
            next_token = xp.where(walking & ~goes_on, token, next_token)
            stopped = stopped | (walking & ~goes_on)
            node = xp.where(goes_on, first_true(matching), node)
        row = in_working_precision(pick(drafts.target_probs, node + 1))
        bonus = ActiveDecisions(decisions, ~stopped).categorical(row)
        return TreeVerdict(node, xp.where(stopped, next_token, bonus), drafts)
