"""Faulty verifiers of a single path, written against `DecisionSource`: each is one real bug, isolated.

A chain rule is two functions: with which weights to stop after 0..L tokens, and with which weights to draw
the token that follows. Every specimen below is a correct rule with one of the two replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from lab.specimens.specimen import specimen
from verifiers import DecisionSource, Drafts, Traits, Verdict
from verifiers.arrays import arange_like, minimum_one, namespace, pick, positive_part
from verifiers.parts.block_path import block_weights, stop_chances
from verifiers.parts.residual import acceptance_ratios, along_path, first_failure, last_success, residual

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
        target, draft, tokens = drafts.target_probs[:, 0], drafts.draft_probs[:, 0], drafts.tokens[:, 0]
        tau = decisions.categorical(self.stop(target, draft, tokens))
        next_token = decisions.categorical(self.correct(target, draft, tokens, tau))
        return Verdict(tau, tau * 0, next_token, drafts.tokens)


# The correct parts.


def token_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Residual (p - q)+ of the row at the first rejection; p after a whole draft."""
    return _rows_or_bonus(target, residual(target[:, :-1], draft), tau)


def block_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Residual (w p - q)+ of block verification; p after a whole draft."""
    weights = block_weights(target, draft, tokens)
    return _rows_or_bonus(target, residual(weights[:, :-1, None] * target[:, :-1], draft), tau)


def _rows_or_bonus(target: Array, rows: Array, tau: Array) -> Array:
    xp = namespace(target)
    return pick(xp.concat([rows, target[:, -1:]], axis=1), tau)


def by_token_stop(stop: Stop) -> ChainVerifier:
    """Correct as the token rule does."""
    return ChainVerifier(stop, token_correction)


def by_block_stop(stop: Stop) -> ChainVerifier:
    """Correct as block verification does."""
    return ChainVerifier(stop, block_correction)


@chain("control", verifier=by_token_stop, rule="token")
def token(target: Array, draft: Array, tokens: Array) -> Array:
    """Token verification: stop at the first failure."""
    return first_failure(minimum_one(acceptance_ratios(target, draft, tokens)))


@chain("control", verifier=by_block_stop, rule="block")
def block(target: Array, draft: Array, tokens: Array) -> Array:
    """Block verification: stop at the last success."""
    return last_success(stop_chances(target, draft, block_weights(target, draft, tokens)))


def by_correction(correct: Correct) -> ChainVerifier:
    """Stop as the token rule does."""
    return ChainVerifier(token, correct)


# The token rule accepts otherwise.


def _by_chance(chance: Callable[[Array, Array, Array, Array], Array]) -> ChainVerifier:
    """Stop at the first failure of other chances, a function of (p row, q row, p(x), q(x))."""

    def stop(target: Array, draft: Array, tokens: Array) -> Array:
        rows = target[:, : tokens.shape[1]]
        return first_failure(chance(rows, draft, along_path(rows, tokens), along_path(draft, tokens)))

    return by_token_stop(stop)


@chain("A2", "joint", verifier=by_token_stop)
def always_accept(target: Array, draft: Array, tokens: Array) -> Array:
    """Never test."""
    return first_failure(draft[:, :, 0] * 0 + 1)


@chain("A3", "joint", verifier=_by_chance)
def ratio_to_largest(rows: Array, draft: Array, p: Array, q: Array) -> Array:
    """Divide p(x) by the largest p instead of by q(x)."""
    return p / namespace(rows).max(rows, axis=-1)


@chain("A4", "joint", verifier=_by_chance)
def match_or_ratio(rows: Array, draft: Array, p: Array, q: Array) -> Array:
    """Two chances: a sample of the target equals the draft, or the ratio test passes."""
    ratio = minimum_one(p / q)
    return ratio + (1 - ratio) * p


@chain("A5", "joint", verifier=by_token_stop)
def first_draft_unverified(target: Array, draft: Array, tokens: Array) -> Array:
    """Start testing at the second draft."""
    return _all_but_one_tested(0, target, draft, tokens)


@chain("A6", "joint", verifier=by_token_stop)
def last_draft_unverified(target: Array, draft: Array, tokens: Array) -> Array:
    """Stop testing before the last draft."""
    return _all_but_one_tested(tokens.shape[1] - 1, target, draft, tokens)


def _all_but_one_tested(position: int, target: Array, draft: Array, tokens: Array) -> Array:
    chances = minimum_one(acceptance_ratios(target, draft, tokens))
    here = arange_like(chances, chances.shape[1])[None, :] == position
    return first_failure(namespace(chances).where(here, chances * 0 + 1, chances))


@chain("mutant", "exact", verifier=_by_chance)
def epsilon_in_ratio(rows: Array, draft: Array, p: Array, q: Array) -> Array:
    """Make q(x) larger by a thousandth, as an epsilon against division by zero does."""
    return minimum_one(p / (q + q / 1000))


# The token rule corrects otherwise.


@chain("B2", "joint", verifier=by_correction)
def residual_is_target(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Redraw from p."""
    return pick(target, tau)


@chain("mutant", "joint", verifier=by_correction)
def residual_absolute(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Draw the correction from |p - q|."""
    rows = abs(target[:, :-1] - draft)
    empty = namespace(rows).sum(rows, axis=-1, keepdims=True) <= 0
    return _rows_or_bonus(target, namespace(rows).where(empty, target[:, :-1], rows), tau)


@chain("B13", "joint", verifier=by_correction)
def residual_argmax(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Take the likeliest correction."""
    return _rows_or_bonus(target, _argmax(residual(target[:, :-1], draft)), tau)


def _argmax(rows: Array) -> Array:
    """Return point masses at the likeliest tokens."""
    best = namespace(rows).argmax(rows, axis=-1)[..., None] == arange_like(rows, rows.shape[-1])
    return rows * 0 + best


@chain("E4", "joint", verifier=by_correction)
def residual_of_row_0(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Correct from the first position's residual."""
    return _residual_of_row(target, draft, tau, tau * 0)


@chain("E4", "joint", verifier=by_correction)
def residual_of_row_before(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Correct from the previous position's residual."""
    return _residual_of_row(target, draft, tau, tau - 1)


@chain("E4", "joint", verifier=by_correction)
def residual_of_row_after(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Correct from the next position's residual."""
    return _residual_of_row(target, draft, tau, tau + 1)


def _residual_of_row(target: Array, draft: Array, tau: Array, row: Array) -> Array:
    xp = namespace(target)
    rows = residual(target[:, :-1], draft)
    length = rows.shape[1]
    row = xp.where(row < 0, row * 0, xp.where(row >= length, row * 0 + length - 1, row))
    return xp.where((tau == length)[:, None], target[:, -1], pick(rows, row))


# The bonus.


def _by_bonus(bonus: Callable[[Array, Array], Array]) -> ChainVerifier:
    """Correct as the token rule does, but with another bonus row, a function of (target, draft)."""

    def correct(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
        rows = [residual(target[:, :-1], draft), bonus(target, draft)[:, None]]
        return pick(namespace(target).concat(rows, axis=1), tau)

    return by_correction(correct)


@chain("E3", "joint", verifier=_by_bonus)
def bonus_from_row_before(target: Array, draft: Array) -> Array:
    """Draw the bonus from the row of the last draft."""
    return target[:, -2]


@chain("E3", "joint", verifier=_by_bonus)
def bonus_from_draft(target: Array, draft: Array) -> Array:
    """Draw the bonus from q."""
    return draft[:, -1]


@chain("E3", "joint", verifier=_by_bonus)
def bonus_argmax(target: Array, draft: Array) -> Array:
    """Take the likeliest bonus."""
    return _argmax(target[:, -1])


# Block verification.


@chain("F5", "joint", verifier=by_block_stop)
def block_unclamped(target: Array, draft: Array, tokens: Array) -> Array:
    """Bank an early surplus for later positions: w_i = w_{i-1} p/q, never capped at one."""
    ratios = acceptance_ratios(target, draft, tokens)
    weights = [ratios[:, :1] * 0 + 1]
    for i in range(tokens.shape[1]):
        weights.append(weights[-1] * ratios[:, i : i + 1])
    chances = stop_chances(target, draft, namespace(target).concat(weights, axis=1))
    return last_success(minimum_one(positive_part(chances)))


@chain("F6", "joint", verifier=lambda correct: ChainVerifier(block, correct))
def block_token_residual(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Correct from (p - q)+ instead of (w p - q)+."""
    return token_correction(target, draft, tokens, tau)


@chain("F7", "joint", verifier=by_block_stop)
def block_first_failure(target: Array, draft: Array, tokens: Array) -> Array:
    """Leave the scan at the first coin that fails."""
    return first_failure(stop_chances(target, draft, block_weights(target, draft, tokens))[:, 1:])


@chain("F8", "joint", verifier=by_block_stop)
def block_weights_as_chances(target: Array, draft: Array, tokens: Array) -> Array:
    """Use w_i as the stop chance at every position."""
    return last_success(block_weights(target, draft, tokens))
