"""Look-ahead multi-path block: select a path by how all of it goes on, then verify it as a block."""

from dataclasses import dataclass
from typing import ClassVar

from verifiers.arrays import Array, arange_like, divide, kept, namespace, pick, working_rows, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.block_path import verify_path
from verifiers.parts.rank_division import Division, PrefixNode, divide_further, divide_root
from verifiers.parts.ranks import selection_chances, with_absent
from verifiers.parts.repeated_rows import distinct_requests
from verifiers.parts.tree_block import verify_way
from verifiers.parts.tree_paths import independent_paths, stem_end
from verifiers.parts.tree_places import places_of
from verifiers.trees import Siblings, TreeDrafts, TreeVerdict


@dataclass(frozen=True)
class LookaheadMultipathBlockVerifier:
    """Block verification of the path of the lowest rank (ours).

    Every path has a law of its rank that follows from the rows along it; so has the selected path a law,
    which verification takes in place of q. It is exact to rounding, and in rationals, whatever ``steps``, the
    least number of ranks: docs/verifiers/lookahead_multipath_block.md. Few ranks cost tokens only.
    """

    steps: int = 64
    traits = Traits(any_order=True)
    accepts: ClassVar = frozenset({Siblings.PATHS})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, by one decision, and verify it."""
        xp = namespace(drafts.draft_probs)
        depths = self._depths(drafts)
        ranks = xp.reshape(depths[-1].children.law, (drafts.batch, drafts.num_paths, -1))
        path = decisions.categorical(selection_chances(ranks))
        selected = arange_like(path, drafts.batch) * drafts.num_paths + path
        law = xp.stack([depth.law(selected) for depth in depths], axis=1)
        target = working_rows(pick(drafts.target_probs, path))
        tau, next_token = verify_path(pick(drafts.tokens, path), target, law, decisions)
        return Verdict(tau, path, next_token, drafts.tokens)

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Select one of the paths below the stem of every tree, and verify it with its stem.

        The selection sees how far a path goes on. Where that depends on other paths, its law is another one.
        """
        xp = namespace(drafts.draft_probs)
        places, request = places_of(drafts), arange_like(drafts.tokens, drafts.batch)
        start = stem_end(drafts, places)
        ways = independent_paths(drafts, places, start)
        depths = self._tree_depths(drafts, places.row, ways)
        ranks = xp.reshape(depths[-1].children.law, (*ways.shape[:2], -1))
        path = decisions.categorical(selection_chances(with_absent(ranks, ways[:, :, 0] >= 0)))
        selected, leaf = request * ways.shape[1] + path, start
        laws = xp.asarray(working_rows(drafts.draft_probs), copy=True)
        for position, depth in enumerate(depths):
            place = ways[request, path, position]
            at = xp.where(place >= 0, places.row[request, place], leaf + 1)
            laws[request, at] = xp.where((place >= 0)[:, None], depth.law(selected), laws[request, at])
            leaf = xp.where(place >= 0, place, leaf)
        laws[request, leaf + 1] = zeros(laws[:, 0])
        return verify_way(drafts, leaf, laws, decisions)

    def _tree_depths(self, drafts: TreeDrafts, above: Array, ways: Array) -> list["_Depth"]:
        """Divide the ranks at every node of the paths ``ways`` [B, K, L]; those that ended keep theirs.

        ``above`` int [B, N]: the row of each place's parent.
        """
        xp = namespace(drafts.draft_probs)
        every = arange_like(ways, ways.shape[0] * ways.shape[1])
        request = every // ways.shape[1]
        prefix = xp.sum(xp.astype(ways[:, :, 0] >= 0, xp.int64), axis=1)[request]
        prefix = xp.where(prefix > 0, prefix, 1)
        target_rows, draft_rows = working_rows(drafts.target_probs), working_rows(drafts.draft_probs)
        depths = list[_Depth]()
        for position in range(ways.shape[2]):
            place = xp.reshape(ways[:, :, position], (-1,))
            drafted = place >= 0
            row = kept(drafted, above[request, place])
            target = target_rows[request, row]
            draft = xp.where(drafted[:, None], draft_rows[request, row], target)
            token = kept(drafted, drafts.tokens[request, kept(drafted, place)])
            chosen, node = distinct_requests(target, draft, prefix)
            if depths:
                division = divide_further(target[chosen], draft[chosen], depths[-1].children.only(chosen))
            else:
                division = divide_root(target[chosen], draft[chosen], prefix[chosen], self.steps)
            ratio = divide(target[every, token], draft[every, token], otherwise=0)
            children = division.child(node, token, ratio)
            if depths:
                children = _chosen(drafted, children, depths[-1].children)
            depths.append(_Depth(draft, node, division, children))
            # A path that ended is like no other one.
            prefix = xp.where(drafted, node * drafts.vocab_size + token, -1 - every)
        return depths

    def _depths(self, drafts: Drafts) -> list["_Depth"]:
        """Divide the ranks at every node of every path, from the root on."""
        xp = namespace(drafts.draft_probs)
        every = arange_like(drafts.tokens, drafts.batch * drafts.num_paths)
        prefix, depths = zeros(every), list[_Depth]()
        for position in range(drafts.draft_length):
            target, draft = (
                _flat(probs[:, :, position]) for probs in (drafts.target_probs, drafts.draft_probs)
            )
            token = xp.reshape(drafts.tokens[:, :, position], (-1,))
            # Prefixes that agree in their rows, and in all that went before, are divided once.
            chosen, node = distinct_requests(target, draft, prefix)
            if depths:
                division = divide_further(target[chosen], draft[chosen], depths[-1].children.only(chosen))
            else:
                division = divide_root(target[chosen], draft[chosen], drafts.num_paths, self.steps)
            ratio = divide(target[every, token], draft[every, token], otherwise=0)
            depths.append(_Depth(draft, node, division, division.child(node, token, ratio)))
            prefix = node * drafts.vocab_size + token
        return depths


@dataclass(frozen=True)
class _Depth:
    """One position of N = B K paths: rows ``draft`` [N, V], nodes ``node`` int [N] of ``division``."""

    draft: Array
    node: Array
    division: Division
    children: PrefixNode

    def law(self, selected: Array) -> Array:
        """Return s(. | v) at the nodes of the paths ``selected`` int [B], [B, V]."""
        return self.draft[selected] * self.division.rate(self.node[selected])


def _chosen(mask: Array, one: PrefixNode, other: PrefixNode) -> PrefixNode:
    """Return the prefixes of ``one`` where ``mask`` [N] holds, those of ``other`` elsewhere."""
    where = namespace(one.law).where
    law, worth = (where(mask[:, None], *pair) for pair in ((one.law, other.law), (one.worth, other.worth)))
    return PrefixNode(law, worth, where(mask, one.demand, other.demand))


def _flat(probs: Array) -> Array:
    """Return rows [B, K, V] as normalised rows [B K, V]."""
    return working_rows(namespace(probs).reshape(probs, (-1, probs.shape[-1])))
