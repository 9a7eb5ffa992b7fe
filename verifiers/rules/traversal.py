"""Traversal verification: judge the draft tree from the leaves up to the root."""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    all_true,
    arange_like,
    divide,
    filled,
    kept,
    minimum_one,
    namespace,
    normalised,
    ones,
    pick,
    pick_each,
    positive_part,
    row_at,
    working_rows,
    zeros,
)
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.residual import first_success
from verifiers.parts.tree_climb import climb
from verifiers.parts.tree_places import Places, places_of
from verifiers.trees import Siblings, TreeDrafts, TreeVerdict


def depth_first(tokens: Array) -> Array:
    """Return the order of the paths, int [B, K], in which the draft tree is traversed depth first.

    tokens int [B, K, L]. Children come in the order in which their first path was drawn.
    """
    xp = namespace(tokens)
    paths, length = tokens.shape[1:]
    order = xp.broadcast_to(arange_like(tokens, paths)[None, :], tokens.shape[:2])
    earliest = []
    same = all_true(tokens[:, :, None, 0])
    for depth in range(length):
        same = same & (tokens[:, :, None, depth] == tokens[:, None, :, depth])
        earliest.append(xp.argmax(xp.where(same, paths - arange_like(tokens, paths), 0), axis=-1))
    for key in reversed(earliest):  # stable sorts by the last key first are one lexicographic sort
        position = xp.argsort(xp.take_along_axis(key, order, axis=1), axis=1, stable=True)
        order = xp.take_along_axis(order, position, axis=1)
    return order


def shared_prefix(one: Array, other: Array) -> Array:
    """Return the length of the common prefix of two paths, int [B], from int [B, L] each."""
    xp = namespace(one)
    return xp.sum(xp.cumulative_prod(xp.astype(one == other, xp.int64), axis=1), axis=1)


@dataclass
class _Ladder:
    """The nodes from the root to the current leaf: what is left of target and draft there, and the weight.

    ``target[d]``, ``draft[d]`` [B, V] and ``weight[d]`` [B, 1] belong to the node at depth d.
    """

    target: list[Array]
    draft: list[Array]
    weight: list[Array]

    def descend(self, depth: int, token: Array, rows: tuple[Array, Array], entered: Array) -> None:
        """Enter, for the requests ``entered`` bool [B, 1], the node at ``depth`` by ``token`` int [B]."""
        xp = namespace(self.target[0])
        ratio = divide(pick(self.target[depth - 1], token), pick(self.draft[depth - 1], token), otherwise=0)
        weight = minimum_one(self.weight[depth - 1] * ratio[:, None])
        self.target[depth] = xp.where(entered, rows[0], self.target[depth])
        self.draft[depth] = xp.where(entered, rows[1], self.draft[depth])
        self.weight[depth] = xp.where(entered, weight, self.weight[depth])

    def reject_child(self, depth: int, token: Array, rejected: Array) -> None:
        """Record that the node at ``depth`` had its child ``token`` int [B] refused where ``rejected``."""
        xp = namespace(self.target[0])
        target, draft, weight = self.target[depth], self.draft[depth], self.weight[depth]
        left = positive_part(weight * target - draft)
        surplus = xp.sum(left, axis=-1, keepdims=True)
        elsewhere = arange_like(draft, draft.shape[-1])[None, :] != token[:, None]
        without = normalised(kept(elsewhere, draft))
        self.target[depth] = xp.where(rejected & (surplus > 0), divide(left, surplus, otherwise=0), target)
        self.draft[depth] = xp.where(rejected, without, draft)
        # The denominator vanishes only where the child is accepted with certainty; then 1 is never used.
        self.weight[depth] = xp.where(rejected, divide(surplus, surplus + (1 - weight), otherwise=1), weight)


def remaining_laws(drafts: TreeDrafts, places: Places) -> Array:
    """Return, for each place, q of its node without the tokens of its earlier siblings, [B, N, V]."""
    xp = namespace(drafts.draft_probs)
    laws = pick_each(working_rows(drafts.draft_probs), places.row)
    every = arange_like(laws, drafts.vocab_size)[None, None, :]
    for place in range(drafts.places):
        drawn = places.earlier[:, :, place, None] & (every == drafts.tokens[:, place, None, None])
        laws = xp.where(drawn, zeros(laws), laws)
    return normalised(laws)


class TraversalVerifier:
    """Traversal verification (Weng et al., arXiv 2505.12398).

    A node is offered once all its children were refused; until then every refusal leaves the node with the
    scaled residual (a p - q)+, the draft law without that child, and the weight s / (s + 1 - a). The chances
    of all offers follow from the rows alone, so one categorical decision picks the first that is taken.
    """

    accepts = frozenset({Siblings.INDEPENDENT, Siblings.DISTINCT, Siblings.BEAM})

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Verify draft trees of any shape: each sibling has the law q without the tokens before it."""
        places = places_of(drafts)
        order = arange_like(drafts.tokens, drafts.places)[None, :] + 0 * drafts.tokens
        return climb(drafts, places, remaining_laws(drafts, places), order, decisions)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the draft tree of every request."""
        xp = namespace(drafts.target_probs)
        length, paths = drafts.draft_length, drafts.num_paths
        order = depth_first(drafts.tokens)
        root = zeros(order[:, 0])
        root_target, root_draft = (
            row_at(rows, root, 0) for rows in (drafts.target_probs, drafts.draft_probs)
        )
        one = ones(root_target[:, :1])
        ladder = _Ladder([root_target] * (length + 1), [root_draft] * (length + 1), [one] * (length + 1))
        chances, rows, lengths, owners = [], [], [], []
        shared = root
        for k in range(paths):
            path = order[:, k]
            tokens = pick(drafts.tokens, path)
            for depth in range(1, length + 1):
                leaf = depth == length
                row = row_at(drafts.target_probs, path, depth)
                draft = root_draft if leaf else row_at(drafts.draft_probs, path, depth)
                ladder.descend(depth, tokens[:, depth - 1], (row, draft), (shared < depth)[:, None])
            if k + 1 < paths:
                shared = shared_prefix(tokens, pick(drafts.tokens, order[:, k + 1]))
            else:
                shared = filled(shared, -1)
            for depth in reversed(range(length + 1)):
                finished = (shared < depth)[:, None]
                weight = ladder.weight[depth] if depth else one
                chances.append(kept(finished, weight))
                rows.append(ladder.target[depth])
                lengths.append(depth)
                owners.append(path)
                if depth:
                    ladder.reject_child(depth - 1, tokens[:, depth - 1], finished)
        taken = decisions.categorical(first_success(xp.concat(chances, axis=1))[:, :-1])
        next_token = decisions.categorical(pick(xp.stack(rows, axis=1), taken))
        tau = pick(xp.stack([filled(taken, depth) for depth in lengths], axis=1), taken)
        return Verdict(tau, pick(xp.stack(owners, axis=1), taken), next_token, drafts.tokens)
