"""Reference rules under given randomness, accept uniforms and exponential noise, and code beside them.

The built-in verifiers draw the accepted length as one categorical decision, which is the same law from other
random numbers. Samplers usually compare one accept uniform with each draft, and draw the next token by
inversion, or as the winner of a race (the largest ratio of weight and exponential noise). Under the same
random numbers they can be compared with these functions row by row.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from spec_oracle.arrays import Numbers
from spec_oracle.audit.results import Pair
from spec_oracle.contracts import Emissions, SamplerCode, checked_emissions, contract_arguments
from spec_oracle.contracts.sampler import RacedSampler
from spec_oracle.statistics import DEFAULT_MISS
from verifiers import Paths
from verifiers.parts.path import acceptance_ratios, block_weights, chain, residual, stop_chances
from verifiers.sampling import invert_cdf

Array: TypeAlias = Numbers
Emission: TypeAlias = tuple[Array, Array]


def by_uniforms(rule: str, drafts: Paths, uniforms: Array) -> Emissions:
    """Verify drafts of one path by a rule of `RULES`; ``uniforms`` as of `decided`."""
    tokens, draft, target = contract_arguments(drafts)
    return checked_emissions(decided(rule, tokens, draft, target, uniforms), drafts)


def decided(rule: str, tokens: Array, draft: Array, target: Array, uniforms: Array) -> Emission:
    """Return what a rule emits, tokens [B, L+1] padded with -1 and the accepted length [B].

    ``uniforms`` [B, L+1]: L accept uniforms, and one that draws the next token.
    """
    tau, scale = _STOPS[rule](tokens, draft, target, uniforms[:, :-1])
    following = invert_cdf(weights_after(draft, target, tau, scale), uniforms[:, -1])
    return assembled(tokens, tau, following)


def by_noise(
    rule: str, drafts: Paths, uniforms: Array, times_at: Callable[[Array], Array], *, reads_draft: bool
) -> Emissions:
    """Verify drafts of one path by a rule of `RULES`, the next token by a race.

    Accept uniforms [B, L]; ``times_at(tau)`` are standard exponential times [B, V]. Code that is not given
    the draft's rows takes the draft for certain.
    """
    tokens, rows, target = contract_arguments(drafts)
    draft = rows if reads_draft else np.eye(drafts.vocab_size)[tokens]
    tau, scale = _STOPS[rule](tokens, draft, target, uniforms)
    speeds = weights_after(draft, target, tau, scale) / times_at(tau)
    return checked_emissions(assembled(tokens, tau, speeds.argmax(axis=1)), drafts)


def pair_by_uniforms(code: SamplerCode, rule: str) -> Pair:
    """Return the pair of code that takes its uniforms and a rule of `RULES`."""

    def pair(drafts: Paths, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        uniforms = rng.random((drafts.batch, drafts.draft_length + 1))
        return code(drafts, uniforms), by_uniforms(rule, drafts, uniforms)

    return pair


def pair_by_noise(engine: RacedSampler) -> Pair:
    """Return the pair of an engine and the token rule, by the same accept uniforms and exponential noise."""
    code = SamplerCode(engine.with_noise, "torch")

    def pair(drafts: Paths, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        uniforms = rng.random((drafts.batch, drafts.draft_length))
        times = rng.standard_exponential((drafts.batch, drafts.vocab_size))
        expected = by_noise("token", drafts, uniforms, lambda _: times, reads_draft=engine.reads_draft)
        return code(drafts, (uniforms, times)), expected

    return pair


def _token_stop(tokens: Array, draft: Array, target: Array, uniforms: Array) -> tuple[Array, Array]:
    """Accept x_i when u_i < p/q, up to the first failure.

    tokens int [B, L], draft [B, L, V], target [B, L+1, V], uniforms [B, L]; returns the accepted length [B],
    and the scale of the target's row that follows [B].
    """
    passed = uniforms < acceptance_ratios(*chain(tokens, target, draft))
    tau = np.cumprod(passed, axis=1).sum(axis=1)
    return tau, np.ones(len(tau))


def _block_stop(tokens: Array, draft: Array, target: Array, uniforms: Array) -> tuple[Array, Array]:
    """Succeed with chance h_i at every draft; the last success is the accepted length. Arrays as above."""
    path = chain(tokens, target, draft)
    weights = block_weights(acceptance_ratios(*path))
    passed = uniforms < stop_chances(*path, weights)[:, 1:]
    tau = (passed * np.arange(1, passed.shape[1] + 1)).max(axis=1)
    return tau, weights[np.arange(len(tau)), tau]


_STOPS = {"token": _token_stop, "block": _block_stop}
RULES = tuple(_STOPS)
"""The rules that can be decided so: the built-in verifiers with the same law."""


def weights_after(draft: Array, target: Array, tau: Array, scale: Array) -> Array:
    """Return the weights [B, V] of the token after ``tau`` accepted ones: (scale p - q)+, or p at the end."""
    row, length = np.arange(len(tau)), draft.shape[1]
    left = residual(scale[:, None] * target[row, tau], draft[row, np.minimum(tau, length - 1)])
    return np.where((tau == length)[:, None], target[row, tau], left)


def assembled(tokens: Array, tau: Array, following: Array) -> Emission:
    """Return the emission that accepts ``tau`` [B] drafted tokens and adds the ``following`` one [B]."""
    position = np.arange(tokens.shape[1] + 1)
    padded = np.concatenate([tokens, tokens[:, :1]], axis=1)
    added = np.where(position == tau[:, None], following[:, None], -1)
    return np.where(position < tau[:, None], padded, added), tau


def rows_needed(total_variation: float) -> int:
    """Return how many rows exclude a total variation with power 1 - `DEFAULT_MISS`, if all are alike."""
    return int(np.ceil(-np.log(DEFAULT_MISS) / total_variation))
