"""Verification rules of published code, each written here from what its files compute; nothing is copied.

Each docstring names the file that was read. `lab.claims.audited` puts the claims about them to instances.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar

import numpy as np

from lab.chains import along, chain_of, first_path
from verifiers.arrays import (
    Array,
    arange_like,
    as_float64,
    divide,
    filled,
    is_exact,
    kept,
    minimum_one,
    namespace,
    ones,
    pick,
    positive_part,
    zeros,
)
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.path import acceptance_ratios, first_failure, last_success

ONE_PATH = Traits(single_path=True)


@dataclass(frozen=True)
class Hierarchical:
    """HSD (arXiv 2601.05724) on one path; `_speculative_sampling` of its transformers/generation/utils.py.

    With r_k = p(x_1..x_k) / q(x_1..x_k), prefix k has the weight w_k = r_k / max(1, r_1, ..., r_k). With
    S+ = sum (w_k p - q)+ and S- = sum (q - w_k p)+ it is kept with probability S+ / max(S+, S-) once every
    longer one is refused, and (w_k p - q)+ is sampled from. The file keeps the whole path with probability
    min(1, r_L); ``corrected`` replaces r_L by w_L.
    """

    corrected: bool = False
    traits: ClassVar[Traits] = ONE_PATH

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, draft, tokens = first_path(drafts)
        xp, length = namespace(target), tokens.shape[1]
        ratios = _prefix_ratios(tokens, target, draft)
        largest = ones(ratios[:, :1])
        weights = []
        for k in range(length + 1):
            largest = xp.maximum(largest, ratios[:, k : k + 1])
            weights.append(ratios[:, k : k + 1] / largest)
        weight = xp.concat(weights, axis=1)
        end = weight[:, length:] if self.corrected else minimum_one(ratios[:, length:])
        chances = xp.concat([_stop_chances(weight, target, draft, otherwise=1), end], axis=1)
        tau = decisions.categorical(last_success(chances))
        left = _surplus(weight, target, draft, tau)
        next_token = decisions.categorical(xp.where(_is_empty(left), pick(target, tau), left))
        return Verdict.on_paths(drafts, zeros(tau), tau, next_token)


class HierarchicalCapped:
    """HSD as algorithm_clean.py of its repository has it (``HSD=True``).

    As `Hierarchical`, but w_k = min(1, r_k), and prefix k is always kept where r_{k+1} >= 1 for the drafted
    x_{k+1}. Where w_k p - q is nowhere positive, x_{k+1} is the last token emitted.
    """

    traits = ONE_PATH

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, draft, tokens = first_path(drafts)
        xp, length = namespace(target), tokens.shape[1]
        ratios = _prefix_ratios(tokens, target, draft)
        weight = minimum_one(ratios)
        stops = _stop_chances(weight, target, draft, otherwise=0)
        stops = xp.where(ratios[:, 1:] >= 1, ones(stops), stops)
        tau = decisions.categorical(last_success(xp.concat([stops, weight[:, length:]], axis=1)))
        left = _surplus(weight, target, draft, tau)
        drafted = pick(tokens, xp.where(tau < length, tau, length - 1))
        next_token = decisions.categorical(xp.where(_is_empty(left), one_hot(drafted, left), left))
        return Verdict.on_paths(drafts, zeros(tau), tau, next_token)


@dataclass(frozen=True)
class Cactus:
    """Cactus (arXiv 2604.04987), of cactus/cactus.py: the token rule against a target that favours the draft.

    For a drafted x the target p becomes h: h(x) = min(1, p(x) + sqrt(2 budget p(x) (1 - p(x)))), the other
    tokens scaled to fit. The bonus token is sampled from p. ``budget`` is a divergence in nats. In rationals
    a root that is irrational is rounded down to nine digits.
    """

    budget: Fraction = Fraction(1, 20)
    traits: ClassVar[Traits] = ONE_PATH

    @property
    def declared_bound(self) -> tuple[str, Fraction]:
        """What an audit holds it to: the budget, for the next token of every prefix."""
        return "kl", self.budget

    def favoured(self, target: Array, token: Array) -> Array:
        """Return h [..., V] for a drafted token int [...] and the target [..., V]."""
        xp = namespace(target)
        drafted = one_hot(token, target)
        is_drafted = drafted > 0
        chance = xp.sum(kept(is_drafted, target), axis=-1, keepdims=True)
        budget = self.budget if is_exact(target) else float(self.budget)
        raised = minimum_one(chance + _root(2 * budget * chance * (1 - chance)))
        return xp.where(is_drafted, raised, target * divide(1 - raised, 1 - chance, otherwise=1))

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, draft, tokens = first_path(drafts)
        xp, length = namespace(target), tokens.shape[1]
        favoured = self.favoured(target[:, :length], tokens)
        chances = divide(along(favoured, tokens), along(draft, tokens), otherwise=0)
        tau = decisions.categorical(first_failure(minimum_one(chances)))
        left = _surplus(ones(target[:, :, 0]), xp.concat([favoured, target[:, length:]], axis=1), draft, tau)
        next_token = decisions.categorical(xp.where(_is_empty(left), pick(target, tau), left))
        return Verdict.on_paths(drafts, zeros(tau), tau, next_token)


class SynchronousSSD:
    """SSD (arXiv 2603.03251), of ssd/utils/verify.py: what it does at temperature > 0 without cache hits.

    Drafts are accepted as long as each is the most likely token of the target; the next token is sampled
    from the whole target.
    """

    traits = ONE_PATH

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, _, tokens = first_path(drafts)
        tau = _as_likeliest(tokens, target)
        return Verdict.on_paths(drafts, zeros(tau), tau, decisions.categorical(pick(target, tau)))


class BatchGreedy:
    """EQSPEC (arXiv 2510.22876), of src/custom/verification.py: greedy, and no bonus token.

    Drafts are accepted as long as each is the most likely token of the target, at most L - 1 of them; the
    next token is the most likely one.
    """

    traits = ONE_PATH

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request; nothing is left to chance."""
        del decisions
        target, _, tokens = first_path(drafts)
        xp, length = namespace(target), tokens.shape[1]
        accepted = _as_likeliest(tokens, target)
        tau = xp.where(accepted < length, accepted, length - 1)
        return Verdict.on_paths(drafts, zeros(tau), tau, xp.argmax(pick(target, tau), axis=-1))


@dataclass(frozen=True)
class Typical:
    """Typical acceptance (arXiv 2401.10774): a threshold on p(x), and the most likely token on rejection.

    A drafted x is accepted if p(x) > min(threshold, sqrt(threshold) exp(-entropy of p)).
    """

    threshold: float = 0.09
    traits: ClassVar[Traits] = ONE_PATH

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, _, tokens = first_path(drafts)
        xp, length = namespace(target), tokens.shape[1]
        rows = as_float64(target[:, :length])
        logs = xp.log(xp.where(rows > 0, rows, ones(rows)))
        bar = minimum_one(self.threshold**-0.5 * xp.exp(xp.sum(rows * logs, axis=-1))) * self.threshold
        tau = _leading(along(rows, tokens) > bar)
        row = pick(target, tau)
        certain = one_hot(xp.argmax(row, axis=-1), row)
        bonus = decisions.categorical(xp.where((tau < length)[:, None], certain, row))
        return Verdict.on_paths(drafts, zeros(tau), tau, bonus)


def _prefix_ratios(tokens: Array, target: Array, draft: Array) -> Array:
    """Return r_k = p(x_1..x_k) / q(x_1..x_k), [B, L+1]; r_0 = 1."""
    ratios = acceptance_ratios(*chain_of(target, draft, tokens))
    products = [ones(ratios[:, :1])]
    for k in range(ratios.shape[1]):
        products.append(products[-1] * ratios[:, k : k + 1])
    return namespace(ratios).concat(products, axis=1)


def _stop_chances(weight: Array, target: Array, draft: Array, *, otherwise: int) -> Array:
    """Return S+ / max(S+, S-) at every prefix shorter than the path, [B, L]; ``otherwise`` for 0/0."""
    xp, length = namespace(target), draft.shape[1]
    difference = weight[:, :length, None] * target[:, :length] - draft
    above, below = (xp.sum(positive_part(sign * difference), axis=-1) for sign in (1, -1))
    return divide(above, xp.maximum(above, below), otherwise=otherwise)


def _surplus(weight: Array, target: Array, draft: Array, tau: Array) -> Array:
    """Return (w p - q)+ after the accepted prefix, [B, V]; w p after the whole path."""
    xp, length = namespace(target), draft.shape[1]
    inside = tau < length
    believed = kept(inside[:, None], pick(draft, xp.where(inside, tau, length - 1)))
    return positive_part(pick(weight, tau)[:, None] * pick(target, tau) - believed)


def _is_empty(weights: Array) -> Array:
    """Return bool [B, 1]: whether nothing is left of weights [B, V]."""
    return ~(namespace(weights).sum(weights, axis=-1, keepdims=True) > 0)


def one_hot(token: Array, like: Array) -> Array:
    """Return 1 at ``token`` int [...], else 0, in the numbers of ``like`` [..., V]."""
    return kept(arange_like(token, like.shape[-1]) == token[..., None], filled(like, 1))


def _leading(mask: Array) -> Array:
    """Return how many values of each row of bool [B, L] hold before the first that does not, int [B]."""
    xp = namespace(mask)
    return xp.sum(xp.cumulative_prod(xp.astype(mask, xp.int64), axis=1), axis=1)


def _as_likeliest(tokens: Array, target: Array) -> Array:
    """Return how many drafts from the first on are the most likely token of their target row, int [B]."""
    return _leading(tokens == namespace(target).argmax(target[:, : tokens.shape[1]], axis=-1))


def _root(values: Array) -> Array:
    """Return square roots; of rationals, those of squares exactly, others rounded down to nine digits."""
    if not is_exact(values):
        return values**0.5

    def of_rational(value: Fraction) -> Fraction:
        above, below = int(value.numerator), int(value.denominator)
        return type(value)(isqrt(above * below * 10**18), below * 10**9)

    return np.asarray(np.frompyfunc(of_rational, 1, 1)(values), dtype=object)
