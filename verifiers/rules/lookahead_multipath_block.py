"""Look-ahead multi-path block: select a path by how all of it goes on, then verify it as a block."""

from dataclasses import dataclass

from verifiers.arrays import Array, arange_like, divide, namespace, pick, working_rows, zeros
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.block_path import verify_path
from verifiers.parts.rank_division import Division, Node, divide_further, divide_root
from verifiers.parts.ranks import selection_chances
from verifiers.parts.repeated_rows import distinct_requests


@dataclass(frozen=True)
class LookaheadMultipathBlockVerifier:
    """Block verification of the path of the lowest rank (ours).

    Every path has a law of its rank that follows from the rows along it; so has the selected path a law,
    which verification takes in place of q. It is exact to rounding, and in rationals, whatever ``steps``, the
    least number of ranks: docs/verifiers/lookahead_multipath_block.md. Few ranks cost tokens only.
    """

    steps: int = 64
    traits = Traits(any_order=True)

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
    children: Node

    def law(self, selected: Array) -> Array:
        """Return s(. | v) at the nodes of the paths ``selected`` int [B], [B, V]."""
        return self.draft[selected] * self.division.rate(self.node[selected])


def _flat(probs: Array) -> Array:
    """Return rows [B, K, V] as normalised rows [B K, V]."""
    return working_rows(namespace(probs).reshape(probs, (-1, probs.shape[-1])))
