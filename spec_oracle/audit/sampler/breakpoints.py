"""Rows on both sides of a rule's breakpoints: a threshold that is slightly off shows there, and nowhere else.

Random uniforms meet a threshold that is wrong by 5e-4 once in two thousand rows. Here the rule, which is
fast, is searched for the place where its emission changes along one uniform, and the code under test, which
may be slow, is asked right below and right above.
"""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.sampler.coins import BY_COINS, CoinRule, by_coins
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.replay import LARGEST_UNIFORM
from spec_oracle.toy import Instance
from verifiers import Drafts

DISTANCE = 1e-5
"""How far from a breakpoint the code is asked: beyond what float32 rounds a threshold by."""

_BISECTIONS = 40


def breakpoint_rows(
    rule: CoinRule, instance: Instance, count: int, rng: np.random.Generator
) -> tuple[Drafts, NDArray[np.float64]]:
    """Return up to ``2 * count`` requests, and uniforms [B, L+1] right beside a breakpoint of the rule.

    Drafts and uniforms are random but for one coordinate, which moves to a change of the emission on the way
    to the farther end of (0, 1).
    """
    width = instance.draft_length + 1
    drafts, uniforms = sampled_drafts(instance.floats, count, rng), rng.random((count, width))
    row, axis = np.arange(count), np.arange(count) % width

    def moved(to: NDArray[np.float64]) -> NDArray[np.float64]:
        points = uniforms.copy()
        points[row, axis] = to
        return points

    here = by_coins(rule, drafts, uniforms).tokens

    def same(at: NDArray[np.float64]) -> NDArray[np.bool_]:
        agree: NDArray[np.bool_] = (by_coins(rule, drafts, moved(at)).tokens == here).all(axis=1)
        return agree

    inside = uniforms[row, axis]
    outside = np.where(inside < 0.5, LARGEST_UNIFORM, 0.0)
    changes = ~same(outside)
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        stays = same(middle)
        inside, outside = np.where(stays, middle, inside), np.where(stays, outside, middle)
    sides = [moved(np.clip(inside + step, 0, LARGEST_UNIFORM))[changes] for step in (-DISTANCE, DISTANCE)]
    return _twice(drafts, changes), np.concatenate(sides)


def _twice(drafts: Drafts, chosen: NDArray[np.bool_]) -> Drafts:
    arrays = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    return Drafts(*(np.concatenate([array[chosen]] * 2) for array in arrays))


def difference_at_breakpoints(code: SamplerCode, rule: str, instance: Instance, count: int, seed: int) -> str:
    """Say where the code and a rule of `BY_COINS` differ beside a breakpoint; "" if nowhere."""
    drafts, uniforms = breakpoint_rows(BY_COINS[rule], instance, count, np.random.default_rng([seed, 3]))
    found, expected = code(drafts, uniforms), by_coins(BY_COINS[rule], drafts, uniforms)
    wrong = np.flatnonzero((found.tokens != expected.tokens).any(axis=1))
    if not len(wrong):
        return ""
    first = wrong[0]
    given = ", ".join(f"{u:.6f}" for u in uniforms[first])
    return (
        f"{len(wrong)} of {len(uniforms)} rows differ {DISTANCE} beside a breakpoint of {rule!r}: "
        f"with uniforms ({given}) after draft {drafts.tokens[first, 0].tolist()} it emits "
        f"{_text(found.tokens[first])}, the rule {_text(expected.tokens[first])}"
    )


def _text(tokens: NDArray[np.int64]) -> list[int]:
    return [int(token) for token in tokens if token >= 0]
