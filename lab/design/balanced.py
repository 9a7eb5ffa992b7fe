"""Balanced selection of one of n independent drafts: the law of the token and of its number of drafts.

A draft x has a rank of law pi_x and a place in it, uniform on [0, 1); the lowest is selected
(`verifiers.parts.ranks`). With 1 - t for the place, S_x(t) = P(rank > r) + t pi_x(r) is the chance that x
comes later. Let A = q_x S_x and B = the sum of q_y S_y over y != x. Then x is selected, drafted c times, with

    C(n, c) c  sum_r  int q_x pi_x(r) A^(c-1) B^(n-c) dt,

an integral of a polynomial. `global_resolution` tests the selected draft z against the law s of selection: it
emits z with chance a_z = min(1, p/s), else a token x of (p - s)+, which was drafted c times with

    C(n, c) (n - c)  sum_r  int (sum over z != x of q_z pi_z(r) (1 - a_z)) A^c B^(n-c-1) dt

(x itself is never refused, as s < p there). Tests compare both with running the rules, in rationals.
"""

from functools import cache
from math import comb
from typing import TypeAlias

import numpy as np

from lab.design.models import Models
from lab.design.walks import Steps
from spec_oracle.arrays import Numbers
from verifiers.arrays import divide, minimum_one, normalised
from verifiers.parts.balanced_selection import balanced_plan
from verifiers.parts.path import residual

Polynomial: TypeAlias = list[Numbers]
"""Coefficients of 1, t, t^2, ..., each [N, V, R]."""


def balanced_steps(models: Models, *, tested: bool) -> Steps:
    """Return the law of the selected token and its number of drafts; if ``tested``, of the emitted token.

    As `walks.steps_of`.
    """

    @cache
    def steps(depth: int, drafts: int) -> Numbers:
        target, draft = models.target[depth], models.draft[depth]
        ranks = _rank_laws(target, draft, drafts)
        race = _Race(draft[:, :, None] * ranks, drafts)
        selected = race.law(race.mass, own=1)
        if not tested:
            return selected
        law = selected.sum(axis=2)
        accepted = minimum_one(divide(target, law, otherwise=0))
        refused = race.mass * (1 - accepted)[:, :, None]
        others = refused.sum(axis=1, keepdims=True) - refused
        rest = normalised(residual(target, law))
        emitted: Numbers = selected * accepted[:, :, None] + rest[:, :, None] * race.law(others, own=0)
        return emitted

    return steps


def _rank_laws(target: Numbers, draft: Numbers, drafts: int) -> Numbers:
    """Return the law of the rank of each token, [N, V, R], at nodes of rows [N, V]."""
    plan = balanced_plan(target, draft, np.full(len(target), drafts))
    node, token = np.divmod(np.arange(draft.size), draft.shape[1])
    laws: Numbers = plan.levels.at(node, token, plan.ranks).reshape(*draft.shape, -1)
    return laws


class _Race:
    """``drafts`` independent drafts: ``mass`` [N, V, R], the probability that one is x and has a rank."""

    def __init__(self, mass: Numbers, drafts: int) -> None:
        self.mass, self._drafts = mass, drafts
        later = np.flip(np.cumsum(np.flip(mass, axis=2), axis=2), axis=2) - mass
        own: Polynomial = [later, mass]
        others: Polynomial = [each.sum(axis=1, keepdims=True) - each for each in own]
        one: Polynomial = [mass * 0 + 1]
        self._own, self._others = [one], [one]
        for _ in range(drafts):
            self._own.append(_product(self._own[-1], own))
            self._others.append(_product(self._others[-1], others))

    def law(self, first: Numbers, *, own: int) -> Numbers:
        """Return the mass [N, V, n+1] that the first draft has ``first`` [N, V, R] and x was drafted c times.

        ``own`` is 1 where the first draft is an x itself, 0 where it is another token.
        """
        law = np.broadcast_to(first[:, :, :1] * 0, (*first.shape[:2], self._drafts + 1)).copy()
        for count in range(own, self._drafts + own):
            others = self._drafts - count - (1 - own)
            ways = comb(self._drafts, count) * (count if own else self._drafts - count)
            later = _product(self._own[count - own], self._others[others])
            chance = sum(each / degree for degree, each in enumerate(later, start=1))
            law[:, :, count] = ways * (first * chance).sum(axis=2)
        return law


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    result: Polynomial = [first[0] * 0] * (len(first) + len(second) - 1)
    for one, left in enumerate(first):
        for other, right in enumerate(second):
            result[one + other] = result[one + other] + left * right
    return result
