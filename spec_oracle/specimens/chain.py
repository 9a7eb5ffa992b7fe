"""Faulty verifiers of a single path, written against `DecisionSource`: each is one real bug, isolated.

A chain rule is two functions: with which weights to stop after 0..L tokens, and with which weights to draw
the token that follows. Every specimen below is a correct rule with one of the two replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from verifiers import DecisionSource, Drafts, Verdict
from verifiers.arrays import arange_like, minimum_one, namespace, pick, positive_part
from verifiers.parts.block_path import block_weights, stop_chances
from verifiers.parts.residual import acceptance_ratios, along_path, first_failure, last_success, residual

Array: TypeAlias = Any
Stop: TypeAlias = Callable[[Array, Array, Array], Array]
"""(target [B, L+1, V], draft [B, L, V], tokens [B, L]) -> weights [B, L+1] of the accepted length."""
Correct: TypeAlias = Callable[[Array, Array, Array, Array], Array]
"""(target, draft, tokens, accepted length [B]) -> weights [B, V] of the token that follows."""


@dataclass(frozen=True)
class ChainVerifier:
    """A single-path verifier made of a stopping rule and a correction rule."""

    stop: Stop
    correct: Correct
    single_path: bool = True

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, draft, tokens = drafts.target_probs[:, 0], drafts.draft_probs[:, 0], drafts.tokens[:, 0]
        tau = decisions.categorical(self.stop(target, draft, tokens))
        next_token = decisions.categorical(self.correct(target, draft, tokens, tau))
        return Verdict(tau, tau * 0, next_token, drafts.tokens)


def token_stop(target: Array, draft: Array, tokens: Array) -> Array:
    """Stop at the first failure of the token rule."""
    return first_failure(minimum_one(acceptance_ratios(target, draft, tokens)))


def block_stop(target: Array, draft: Array, tokens: Array) -> Array:
    """Stop as block verification does."""
    return last_success(stop_chances(target, draft, block_weights(target, draft, tokens)))


def token_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
    """Residual (p - q)+ of the row at the first rejection; p after a whole draft."""
    return _rows_or_bonus(target, residual(target[:, :-1], draft), tau)


def block_correction(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:
    """Residual (w p - q)+ of block verification; p after a whole draft."""
    weights = block_weights(target, draft, tokens)
    return _rows_or_bonus(target, residual(weights[:, :-1, None] * target[:, :-1], draft), tau)


def _rows_or_bonus(target: Array, rows: Array, tau: Array) -> Array:
    xp = namespace(target)
    return pick(xp.concat([rows, target[:, -1:]], axis=1), tau)


def _success(chances: Array) -> Stop:
    """Return a token-rule stop with other acceptance chances, a function of (p row, q row, p(x), q(x))."""

    def stop(target: Array, draft: Array, tokens: Array) -> Array:
        rows = target[:, : tokens.shape[1]]
        return first_failure(chances(rows, draft, along_path(rows, tokens), along_path(draft, tokens)))

    return stop


def _always(target: Array, draft: Array, tokens: Array) -> Array:  # noqa: ARG001
    return first_failure(draft[:, :, 0] * 0 + 1)


def _unverified(position: int) -> Stop:
    def stop(target: Array, draft: Array, tokens: Array) -> Array:
        chances = minimum_one(acceptance_ratios(target, draft, tokens))
        xp = namespace(chances)
        here = arange_like(chances, chances.shape[1])[None, :] == position % chances.shape[1]
        return first_failure(xp.where(here, chances * 0 + 1, chances))

    return stop


def _ratio_to_largest(rows: Array, draft: Array, p: Array, q: Array) -> Array:  # noqa: ARG001
    xp = namespace(rows)
    return p / xp.max(rows, axis=-1)


def _match_or_ratio(rows: Array, draft: Array, p: Array, q: Array) -> Array:  # noqa: ARG001
    ratio = minimum_one(p / q)
    return ratio + (1 - ratio) * p


def _epsilon_in_ratio(rows: Array, draft: Array, p: Array, q: Array) -> Array:  # noqa: ARG001
    return minimum_one(p / (q + q / 1000))


def _unclamped_stop(target: Array, draft: Array, tokens: Array) -> Array:
    """Run block verification with w_i = w_{i-1} p/q, never clamped at one."""
    xp = namespace(target)
    ratios = acceptance_ratios(target, draft, tokens)
    weights = [ratios[:, :1] * 0 + 1]
    for i in range(tokens.shape[1]):
        weights.append(weights[-1] * ratios[:, i : i + 1])
    chances = stop_chances(target, draft, xp.concat(weights, axis=1))
    return last_success(minimum_one(positive_part(chances)))


def _first_failure_of_block(target: Array, draft: Array, tokens: Array) -> Array:
    chances = stop_chances(target, draft, block_weights(target, draft, tokens))
    return first_failure(chances[:, 1:])


def _path_weights_as_chances(target: Array, draft: Array, tokens: Array) -> Array:
    return last_success(block_weights(target, draft, tokens))


def _target_row(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
    return pick(target, tau)


def _absolute_residual(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
    rows = abs(target[:, :-1] - draft)
    empty = namespace(rows).sum(rows, axis=-1, keepdims=True) <= 0
    return _rows_or_bonus(target, namespace(rows).where(empty, target[:, :-1], rows), tau)


def _argmax_of_residual(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
    rows = residual(target[:, :-1], draft)
    best = namespace(rows).argmax(rows, axis=-1)[:, :, None] == arange_like(rows, rows.shape[-1])
    return _rows_or_bonus(target, rows * 0 + best, tau)


def _residual_of_row(shift: int | None) -> Correct:
    """Return the correction that reads row ``tau + shift``; row 0 for None."""

    def correct(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
        xp = namespace(target)
        rows = residual(target[:, :-1], draft)
        length = rows.shape[1]
        wrong = tau * 0 if shift is None else tau + shift
        wrong = xp.where(wrong < 0, wrong * 0, xp.where(wrong >= length, wrong * 0 + length - 1, wrong))
        return xp.where((tau == length)[:, None], target[:, -1], pick(rows, wrong))

    return correct


def _bonus(row: Callable[[Array, Array], Array]) -> Correct:
    """Return the token correction with another bonus row, a function of (target, draft)."""

    def correct(target: Array, draft: Array, tokens: Array, tau: Array) -> Array:  # noqa: ARG001
        xp = namespace(target)
        rows = residual(target[:, :-1], draft)
        return pick(xp.concat([rows, row(target, draft)[:, None]], axis=1), tau)

    return correct


def _argmax_row(target: Array, draft: Array) -> Array:  # noqa: ARG001
    xp = namespace(target)
    best = xp.argmax(target[:, -1], axis=-1)[:, None] == arange_like(target, target.shape[-1])
    return target[:, -1] * 0 + best


CORRECT: dict[str, ChainVerifier] = {
    "token": ChainVerifier(token_stop, token_correction),
    "block": ChainVerifier(block_stop, block_correction),
}
"""Controls: the same pieces, put together right."""

FAULTY: dict[str, tuple[str, ChainVerifier]] = {
    "always-accept": ("A1", ChainVerifier(_always, token_correction)),
    "ratio-to-largest": ("A3", ChainVerifier(_success(_ratio_to_largest), token_correction)),
    "match-or-ratio": ("A4", ChainVerifier(_success(_match_or_ratio), token_correction)),
    "first-draft-unverified": ("A5", ChainVerifier(_unverified(0), token_correction)),
    "last-draft-unverified": ("A6", ChainVerifier(_unverified(-1), token_correction)),
    "epsilon-in-ratio": ("tpu-inference", ChainVerifier(_success(_epsilon_in_ratio), token_correction)),
    "residual-is-target": ("B2", ChainVerifier(token_stop, _target_row)),
    "residual-absolute": ("B1", ChainVerifier(token_stop, _absolute_residual)),
    "residual-argmax": ("B13", ChainVerifier(token_stop, _argmax_of_residual)),
    "residual-of-row-0": ("E4", ChainVerifier(token_stop, _residual_of_row(None))),
    "residual-of-row-before": ("E4", ChainVerifier(token_stop, _residual_of_row(-1))),
    "residual-of-row-after": ("E4", ChainVerifier(token_stop, _residual_of_row(1))),
    "bonus-from-row-before": ("E3", ChainVerifier(token_stop, _bonus(lambda p, q: p[:, -2]))),  # noqa: ARG005
    "bonus-from-draft": ("E3", ChainVerifier(token_stop, _bonus(lambda p, q: q[:, -1]))),  # noqa: ARG005
    "bonus-argmax": ("E3", ChainVerifier(token_stop, _bonus(_argmax_row))),
    "block-unclamped": ("F5", ChainVerifier(_unclamped_stop, block_correction)),
    "block-token-residual": ("F6", ChainVerifier(block_stop, token_correction)),
    "block-first-failure": ("F7", ChainVerifier(_first_failure_of_block, block_correction)),
    "block-weights-as-chances": ("F8", ChainVerifier(_path_weights_as_chances, block_correction)),
}
"""Specimens by name: the id in the bug catalogue (or the project where it was seen), and the verifier."""
