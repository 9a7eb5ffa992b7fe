"""Faulty verifiers of a single path, written against `DecisionSource`: each is one real bug, isolated.

They are audited as rules, by enumeration of their decisions. A chain rule is two functions: with which
weights to stop after 0..L tokens, and with which weights to draw the token that follows. A specimen is a
correct rule with one of the two replaced, or with something done before or after it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from lab.chains import along, chain_of, first_path
from lab.specimens.specimen import specimen, specimens_of
from verifiers import DecisionSource, Drafts, State, StatefulVerifier, Traits, Verdict
from verifiers.arrays import arange_like, minimum_one, namespace, pick
from verifiers.parts.path import (
    acceptance_ratios,
    block_weights,
    first_failure,
    last_success,
    residual,
    stop_chances,
)
from verifiers.rules.greedy_block import GreedyBlockVerifier

Array: TypeAlias = Any
Stop: TypeAlias = Callable[[Array, Array, Array], Array]
"""(target [B, L+1, V], draft [B, L, V], tokens [B, L]) -> weights [B, L+1] of the accepted length."""
Correct: TypeAlias = Callable[[Array, Array, Array, Array], Array]
"""(target, draft, tokens, accepted length [B]) -> weights [B, V] of the token that follows."""

chain = partial(specimen, prefix="chain-")


@dataclass(frozen=True)
class ChainVerifier:
    """A single-path verifier made of a stopping rule and a correction rule."""

    stop: Stop
    correct: Correct
    traits = Traits(single_path=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, draft, tokens = first_path(drafts)
        tau = decisions.categorical(self.stop(target, draft, tokens))
        next_token = decisions.categorical(self.correct(target, draft, tokens, tau))
        return Verdict.on_paths(drafts, tau * 0, tau, next_token)


# The correct parts.


def token_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Residual (p - q)+ of the row at the first rejection; p after a whole draft."""
    return _rows_or_bonus(target, residual(target[:, :-1], draft), tau)


def block_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Residual (w p - q)+ of block verification; p after a whole draft."""
    weights = _weights(target, draft, tokens)
    return _rows_or_bonus(target, residual(weights[:, :-1, None] * target[:, :-1], draft), tau)


def _ratios(target: Array, draft: Array, tokens: Array) -> Array:
    return acceptance_ratios(*chain_of(target, draft, tokens))


def _weights(target: Array, draft: Array, tokens: Array) -> Array:
    return block_weights(_ratios(target, draft, tokens))


def _stop_chances(target: Array, draft: Array, tokens: Array) -> Array:
    return stop_chances(*chain_of(target, draft, tokens), _weights(target, draft, tokens))


def _rows_or_bonus(target: Array, rows: Array, tau: Array) -> Array:
    xp = namespace(target)
    return pick(xp.concat([rows, target[:, -1:]], axis=1), tau)


def by_token_stop(stop: Stop) -> ChainVerifier:
    """Correct as the token rule does."""
    return ChainVerifier(stop, token_correction)


def by_block_stop(stop: Stop) -> ChainVerifier:
    """Correct as block verification does."""
    return ChainVerifier(stop, block_correction)


@chain("control", rule=by_token_stop, declared="token")
def token(target: Array, draft: Array, tokens: Array) -> Array:
    """Token verification: stop at the first failure."""
    return first_failure(minimum_one(_ratios(target, draft, tokens)))


@chain("control", rule=by_block_stop, declared="block")
def block(target: Array, draft: Array, tokens: Array) -> Array:
    """Block verification: stop at the last success."""
    return last_success(_stop_chances(target, draft, tokens))


def by_correction(correct: Correct) -> ChainVerifier:
    """Stop as the token rule does."""
    return ChainVerifier(token, correct)


# The token rule accepts otherwise.


@chain("A2", "joint", rule=by_token_stop)
def always_accept(target: Array, draft: Array, tokens: Array) -> Array:
    """Never test."""
    return first_failure(draft[:, :, 0] * 0 + 1)


@chain("A3", "joint", rule=by_token_stop)
def ratio_to_largest(target: Array, draft: Array, tokens: Array) -> Array:
    """Divide p(x) by the largest p instead of by q(x)."""
    rows = target[:, :-1]
    return first_failure(along(rows, tokens) / namespace(rows).max(rows, axis=-1))


@chain("A5", "joint", rule=by_token_stop)
def first_draft_unverified(target: Array, draft: Array, tokens: Array) -> Array:
    """Start testing at the second draft."""
    chances = minimum_one(_ratios(target, draft, tokens))
    is_first = arange_like(chances, chances.shape[1])[None, :] == 0
    return first_failure(namespace(chances).where(is_first, chances * 0 + 1, chances))


# The token rule corrects otherwise.


@chain("mutant", "joint", rule=by_correction)
def residual_absolute(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Draw the correction from |p - q|."""
    rows = abs(target[:, :-1] - draft)
    empty = namespace(rows).sum(rows, axis=-1, keepdims=True) <= 0
    return _rows_or_bonus(target, namespace(rows).where(empty, target[:, :-1], rows), tau)


@chain("B13", "joint", rule=by_correction)
def residual_argmax(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Take the likeliest correction."""
    rows = residual(target[:, :-1], draft)
    best = namespace(rows).argmax(rows, axis=-1)[..., None] == arange_like(rows, rows.shape[-1])
    return _rows_or_bonus(target, rows * 0 + best, tau)


# Block verification.


@chain("F7", "joint", rule=by_block_stop)
def block_first_failure(target: Array, draft: Array, tokens: Array) -> Array:
    """Leave the scan at the first coin that fails."""
    return first_failure(_stop_chances(target, draft, tokens)[:, 1:])


@chain("F8", "joint", rule=by_block_stop)
def block_weights_as_chances(target: Array, draft: Array, tokens: Array) -> Array:
    """Use w_i as the stop chance at every position."""
    return last_success(_weights(target, draft, tokens))


# The rule is right for one call of one healthy request, and what surrounds it is not.


@dataclass(frozen=True)
class Surrounded:
    """A verifier that is a function of drafts and decisions."""

    around: Callable[[Drafts, DecisionSource], Verdict]
    traits = Traits(single_path=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        return self.around(drafts, decisions)


RIGHT = by_token_stop(token)


@chain("mutant", "length", rule=Surrounded, declared="block")
def token_rule_declared_block(drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """Verify by the token rule where block verification is declared."""
    return RIGHT.verify(drafts, decisions)


@chain("mutant", "batch", rule=Surrounded)
def rows_of_the_neighbour(drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """Verify every request with the rows of the next one of the batch."""
    paths = drafts.paths
    rows = (namespace(rows).roll(rows, 1, axis=0) for rows in (paths.draft_probs, paths.target_probs))
    return RIGHT.verify(Drafts.of_paths(paths.tokens, *rows), decisions)


@chain("mutant", "inputs-kept", rule=Surrounded)
def zeroed_target_rows(drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """Leave zeros in the target rows of the caller."""
    verdict = RIGHT.verify(drafts, decisions)
    drafts.paths.target_probs[:] = 0
    return verdict


@chain("mutant", "scale", rule=Surrounded)
def ids_of_eight_bits(drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """Store the next token in eight bits."""
    verdict = RIGHT.verify(drafts, decisions)
    return replace(verdict, next_token=verdict.next_token % 256)


@chain("mutant", "shapes", rule=by_correction)
def residual_of_32_tokens(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Correct with one of the first 32 tokens."""
    rows = token_correction(target, draft, tokens, tau)
    within = rows * (arange_like(rows, rows.shape[1]) < 32)
    xp = namespace(rows)
    return xp.where(xp.sum(within, axis=-1, keepdims=True) > 0, within, rows)


@chain("mutant", "bad-input", rule=by_token_stop)
def chances_above_zero(target: Array, draft: Array, tokens: Array) -> Array:
    """Accept with a chance of at least 1e-12, for the sake of a logarithm."""
    chances = minimum_one(_ratios(target, draft, tokens))
    least = (chances * 0 + 1) / 10**12
    return first_failure(namespace(chances).where(chances < least, least, chances))


@dataclass(frozen=True)
class Forgetful:
    """Greedy block verification, each of whose calls is the first of its request."""

    rule: StatefulVerifier
    traits = Traits(single_path=True)

    def initial_state(self, batch: int) -> State:
        """Return the state of ``batch`` fresh requests."""
        return self.rule.initial_state(batch)

    def verify(self, drafts: Drafts, decisions: DecisionSource, state: State) -> tuple[Verdict, State]:
        """Verify a batch and return the state of fresh requests."""
        verdict, _ = self.rule.verify(drafts, decisions, state)
        return verdict, self.rule.initial_state(drafts.batch)


specimens_of("calls", rule=Forgetful)(
    chain_greedy_block_without_carry=("mutant: Drop what a call owes to the next one", GreedyBlockVerifier())
)
