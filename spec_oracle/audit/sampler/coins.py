"""Built-in rules decided by given uniforms, as engines do it: one coin a draft, then one draw by inversion.

The built-in verifiers draw the accepted length as one categorical decision, which is the same law from other
uniforms. Code that is handed its uniforms usually compares them one by one; under the same uniforms it can be
compared with these functions row by row.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts import Emissions, checked_emissions, contract_arguments
from verifiers import Drafts
from verifiers.parts.block_path import block_weights, stop_chances
from verifiers.parts.residual import acceptance_ratios, residual
from verifiers.sampling import invert_cdf

Array: TypeAlias = NDArray[Any]
Emission: TypeAlias = tuple[Array, Array]
CoinRule: TypeAlias = Callable[[Array, Array, Array, Array], Emission]


def _token_stop(tokens: Array, draft: Array, target: Array, coins: Array) -> tuple[Array, Array]:
    """Accept x_i when u_i < p/q, up to the first failure.

    tokens int [B, L], draft [B, L, V], target [B, L+1, V], coins [B, L]; returns the accepted length [B], and
    the scale of the target's row that follows [B].
    """
    passed = coins < acceptance_ratios(target, draft, tokens)
    tau = np.cumprod(passed, axis=1).sum(axis=1)
    return tau, np.ones(len(tau))


def _block_stop(tokens: Array, draft: Array, target: Array, coins: Array) -> tuple[Array, Array]:
    """Toss a coin of chance h_i at every draft; the last success is the accepted length. Arrays as above."""
    weights = block_weights(target, draft, tokens)
    passed = coins < stop_chances(target, draft, weights)[:, 1:]
    tau = (passed * np.arange(1, passed.shape[1] + 1)).max(axis=1)
    return tau, weights[np.arange(len(tau)), tau]


_STOPS = {"token": _token_stop, "block": _block_stop}


def _by_inversion(stop: str, tokens: Array, draft: Array, target: Array, uniforms: Array) -> Emission:
    """Decide by ``uniforms`` [B, L+1]: L coins, and one that draws the next token.

    Returns tokens [B, L+1] padded with -1, and the accepted length [B].
    """
    tau, scale = _STOPS[stop](tokens, draft, target, uniforms[:, :-1])
    following = invert_cdf(weights_after(draft, target, tau, scale), uniforms[:, -1])
    return assembled(tokens, tau, following)


BY_COINS: Final[dict[str, CoinRule]] = {name: partial(_by_inversion, name) for name in _STOPS}
"""The rules that can be decided so, by the name of the built-in verifier with the same law."""


def by_coins(rule: CoinRule, drafts: Drafts, uniforms: Array) -> Emissions:
    """Verify drafts of one path by a rule of `BY_COINS`."""
    tokens, draft, target = contract_arguments(drafts)
    return checked_emissions(rule(tokens, draft, target, uniforms), drafts)


def by_race(
    rule: str, drafts: Drafts, coins: Array, times_at: Callable[[Array], Array], *, reads_draft: bool
) -> Emissions:
    """Verify drafts of one path: the accepted length as in `BY_COINS`, the next token by exponential clocks.

    ``coins`` [B, L]; ``times_at(tau)`` are standard exponential times [B, V]. Code that is not given the
    draft's rows takes the draft for certain.
    """
    tokens, rows, target = contract_arguments(drafts)
    draft = rows if reads_draft else np.eye(drafts.vocab_size)[tokens]
    tau, scale = _STOPS[rule](tokens, draft, target, coins)
    speeds = weights_after(draft, target, tau, scale) / times_at(tau)
    return checked_emissions(assembled(tokens, tau, speeds.argmax(axis=1)), drafts)


def assembled(tokens: Array, tau: Array, following: Array) -> Emission:
    """Return the emission that accepts ``tau`` [B] drafted tokens and adds the ``following`` one [B]."""
    position = np.arange(tokens.shape[1] + 1)
    padded = np.concatenate([tokens, tokens[:, :1]], axis=1)
    added = np.where(position == tau[:, None], following[:, None], -1)
    return np.where(position < tau[:, None], padded, added), tau


def weights_after(draft: Array, target: Array, tau: Array, scale: Array) -> Array:
    """Return the weights [B, V] of the token after ``tau`` accepted ones: (scale p - q)+, or p at the end."""
    row, length = np.arange(len(tau)), draft.shape[1]
    left = residual(scale[:, None] * target[row, tau], draft[row, np.minimum(tau, length - 1)])
    return np.where((tau == length)[:, None], target[row, tau], left)
