"""Faulty rules for several paths, written against `DecisionSource`: each is one real bug, isolated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from lab.chains import chain_of
from lab.specimens.specimen import itself, specimen, specimens_of
from verifiers import DecisionSource, Drafts, Paths, State, StatefulVerifier, Traits, Verdict
from verifiers.arrays import divide, minimum_one, namespace, pick, pick_each, raised_to
from verifiers.parts.path import first_success, residual, verify_path
from verifiers.parts.path_order import child_alpha, highest_path_row, keep_highest, ranks
from verifiers.parts.walk import INDEPENDENT, ActiveDecisions, Node, OneStepRule, Walk, first_true
from verifiers.rules.block_transport import BlockTransportVerifier, Model, Position
from verifiers.rules.k_seq import accept_scaled, smallest_rho

Array: TypeAlias = Any
Order: TypeAlias = Callable[[Array, Array], Array]
"""(target row [B, V], draft row [B, V]) -> rank of each token, int [B, V], 0 for the highest."""
Leftover: TypeAlias = Callable[[Array, Array, Array], Array]
"""(target row p [B, V], r = min(1, q/p) [B, V], drafts n int [B]) -> weights [B, V] of the correction."""


@dataclass(frozen=True)
class OrderedPathVerifier:
    """Greedy multi-path block verification that selects in one order and computes q^Gamma in another.

    Lossless exactly when the two orders are one strict order (docs/theory.md, "Multi-path rules"). Paths that
    tie in the order of selection are told apart by which was drawn first.
    """

    selection: Order
    law: Order

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the selected path of every request."""
        paths = drafts.paths
        path = self._select(paths)
        tokens, target, draft = (
            pick(rows, path) for rows in (paths.tokens, paths.target_probs, paths.draft_probs)
        )
        law = self._rows(tokens, target, draft, paths)
        tau, next_token = verify_path(*chain_of(target, law, tokens), decisions)
        return Verdict.on_paths(drafts, path, tau, next_token)

    def _select(self, paths: Paths) -> Array:
        """Return the highest path in the order of selection, int [B]."""
        present = paths.tokens[:, :, 0] == paths.tokens[:, :, 0]
        for depth in range(paths.draft_length):
            first, tokens = first_true(present), paths.tokens[:, :, depth]
            rank = self.selection(
                pick(paths.target_probs[:, :, depth], first), pick(paths.draft_probs[:, :, depth], first)
            )
            present = keep_highest(present, rank, tokens)
            present = present & (tokens == pick(tokens, first_true(present))[:, None])
        return first_true(present)

    def _rows(self, tokens: Array, target: Array, draft: Array, paths: Paths) -> Array:
        """Return q^Gamma [B, L, V] along one path per request, by the order of the law."""
        xp = namespace(draft)
        alpha = draft[:, 0, 0] * 0
        rows = []
        for depth in range(paths.draft_length):
            row = draft[:, depth]
            rank = self.law(target[:, depth], row)
            rows.append(highest_path_row(row, rank, alpha, paths.num_paths))
            alpha = child_alpha(row, rank, alpha, tokens[:, depth])
        return xp.stack(rows, axis=1)


def larger_token_first(target: Array, draft: Array) -> Array:
    """Rank by p/q, the larger of two tokens of equal p/q first."""
    xp = namespace(draft)
    return xp.flip(ranks(xp.flip(target, axis=-1), xp.flip(draft, axis=-1)), axis=-1)


def by_clipped_ratio(target: Array, draft: Array) -> Array:
    """Rank by min(1, p/q)."""
    xp = namespace(draft)
    ratio = minimum_one(divide(target, draft, otherwise=0))
    return xp.sum(xp.astype(ratio[:, None, :] > ratio[:, :, None], xp.int64), axis=-1)


controls = partial(specimens_of, num_paths=2, rule=itself)
mutants = partial(specimens_of, "joint", num_paths=2)
controls(declared="greedy_multipath_block")(
    greedy_multipath=(
        "control: Greedy multi-path block verification, put together of the same pieces",
        OrderedPathVerifier(ranks, ranks),
    )
)
controls()(
    greedy_multipath_larger_token_first=(
        "control: The larger token wins ties of p/q, in the selection and in the law",
        OrderedPathVerifier(larger_token_first, larger_token_first),
    )
)
mutants(rule=itself)(
    greedy_multipath_ties_differ=(
        "mutant: The larger token wins ties in the selection, the smaller one in the law",
        OrderedPathVerifier(larger_token_first, ranks),
    ),
    greedy_multipath_clipped=(
        "mutant: The selection ranks by min(1, p/q), in which all tokens with p >= q share rank 0",
        OrderedPathVerifier(by_clipped_ratio, ranks),
    ),
)


def walk(rule: OneStepRule) -> Walk:
    """Return the rule that walks down draft trees of independent siblings with a one-step rule."""
    return Walk(rule, INDEPENDENT, Traits())


@specimen("mutant", "joint", num_paths=2, rule=walk)
def k_seq_rounded_down(node: Node, decisions: DecisionSource) -> Array:
    """K-SEQ with rho rounded down to two decimals: below the smallest valid rho, so mass is overspent."""
    rho = smallest_rho(node.target, node.draft, node.num_drafts)
    one = rho * 0 + 1
    return accept_scaled(node, 100 * rho // one / (100 * one), decisions)


def transport_ratios(leftover: Leftover) -> OneStepRule:
    """Return the rule that serves the masses of block transport by one acceptance ratio per draft.

    With r = min(1, q/p), draft k is to add p (1 - r)^(k-1) r to the mass served at its token; the ratio
    divides that by the mass q(x) sum_y p (1 - r)^(k-1) with which the draft is x and all earlier ones were
    refused. Ratios above one are clipped, and what was clipped is served nowhere. The ratios are
    reconstructed from the masses of arXiv 2604.25925; with L = 1 tokens and walk are the same thing.
    """

    def rule(node: Node, decisions: DecisionSource) -> Array:
        xp = namespace(node.target)
        target, draft = node.target, node.draft
        ratio = minimum_one(divide(draft, target, otherwise=1))
        left, chances = target, []
        for k in range(node.tokens.shape[1]):
            carried = draft * xp.sum(left, axis=-1, keepdims=True)
            chance = pick_each(
                minimum_one(divide(left * ratio, carried, otherwise=1)), node.tokens[:, k : k + 1]
            )
            chances.append(xp.where(node.present[:, k : k + 1], chance, chance * 0))
            left = xp.where(node.present[:, k : k + 1], left * (1 - ratio), left)
        choice = decisions.categorical(first_success(xp.concat(chances, axis=1)))
        refused = choice == node.tokens.shape[1]
        weights = residual(leftover(target, ratio, node.num_drafts), target * 0)
        weights = xp.where(xp.sum(weights, axis=-1, keepdims=True) > 0, weights, target)
        redrawn = ActiveDecisions(decisions, refused).categorical(weights)
        accepted = pick(node.tokens, xp.where(refused, choice * 0, choice))
        return xp.where(refused, redrawn, accepted)

    return rule


mutants(rule=lambda leftover: walk(transport_ratios(leftover)))(
    block_transport_ratios=(
        (
            "mutant: The masses of block transport by one ratio per draft; "
            "p (1 - r)^n, what they leave, corrects"
        ),
        lambda target, ratio, num_drafts: target * raised_to(num_drafts[:, None])(1 - ratio),
    ),
    block_transport_ratios_wrong_residual=(
        'mutant: The same with p (1 - r^n), which mistakes "not every draft" for "no draft"',
        lambda target, ratio, num_drafts: target * (1 - raised_to(num_drafts[:, None])(ratio)),
    ),
)


@dataclass(frozen=True)
class ForgetfulBlockTransport:
    """Block transport that corrects as it must, then forgets its debt."""

    rule: StatefulVerifier = field(default_factory=BlockTransportVerifier)

    def bound_to(self, target: Model, draft: Model) -> StatefulVerifier:
        """Return the rule for two toy models, each given as the row [V] after any context."""
        return ForgetfulBlockTransport(BlockTransportVerifier().bound_to(target, draft))

    def initial_state(self, batch: int) -> State:
        """Return the state of ``batch`` fresh requests."""
        return self.rule.initial_state(batch)

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify a batch; of the next state only the contexts are kept, the debts are dropped."""
        verdict, (positions,) = self.rule.verify(drafts, decisions, state)
        for b, position in enumerate(positions):
            positions[b] = Position(position.context)
        return verdict, (positions,)


mutants(rule=itself)(
    block_transport_forgetful=(
        "mutant: Correct as block transport must, then forget the debt",
        ForgetfulBlockTransport(),
    )
)
