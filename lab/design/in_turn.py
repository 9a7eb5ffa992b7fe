"""Rules that test independent drafts in turn: the law of the emitted token and its number of drafts.

The i-th of n drafts is accepted with a chance a_i(x) that depends on its token alone; if none is, the token
is sampled from r. So with b_i = sum of q a_i, a draft that was refused at place i is x with probability
q(x) (1 - a_i(x)) / (1 - b_i), and the drafts after an accepted one are as they were drawn. That gives in
closed form, at any n, what `walks.steps_of` finds by running the rule on V^n tuples: tests compare the two in
rationals.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from lab.design.models import Models
from lab.design.walks import Steps
from spec_oracle.arrays import Numbers
from verifiers.arrays import divide, minimum_one, normalised, positive_part
from verifiers.parts.path import residual
from verifiers.rules.k_seq import smallest_rho

Tests: TypeAlias = tuple[list[Numbers], Numbers]
"""The chances a_1, .., a_n, each [N, V], and the row r [N, V]."""


def sample_target(target: Numbers, draft: Numbers, drafts: int) -> Tests:
    """`nss`: no draft is tested."""
    return [draft * 0] * drafts, target


def first_alone(target: Numbers, draft: Numbers, drafts: int) -> Tests:
    """`naive`: only the first draft is tested."""
    accepted = _ratio(target, draft)
    return [accepted, *[draft * 0] * (drafts - 1)], normalised(residual(target, draft))


def against_rest(target: Numbers, draft: Numbers, drafts: int) -> Tests:
    """`recursive_rejection`: each draft is tested against what is left of the target."""
    chances = []
    for _ in range(drafts):
        chances.append(_ratio(target, draft))
        target = normalised(residual(target, draft))
    return chances, target


def against_scaled(target: Numbers, draft: Numbers, drafts: int) -> Tests:
    """`k_seq`: every draft is tested against the target scaled down by rho; see `verifiers.rules.k_seq`."""
    rho = smallest_rho(target, draft, np.full(len(target), drafts))[:, None]
    chance = _ratio(target, rho * draft)
    refused = (1 - (draft * chance).sum(axis=1, keepdims=True)) ** drafts
    emitted = divide(draft * chance * (1 - refused), (draft * chance).sum(axis=1, keepdims=True), otherwise=0)
    left = positive_part(target - emitted)
    some = left.sum(axis=1, keepdims=True) > 0
    return [chance] * drafts, normalised(np.where(some, left, target))


def _ratio(target: Numbers, draft: Numbers) -> Numbers:
    chance: Numbers = minimum_one(divide(target, draft, otherwise=0))
    return chance


TESTS: dict[str, Callable[[Numbers, Numbers, int], Tests]] = {
    "nss": sample_target,
    "naive": first_alone,
    "recursive_rejection": against_rest,
    "k_seq": against_scaled,
}
"""By the name of the rule."""


def steps_in_turn(rule: str, models: Models) -> Steps:
    """Return the law of (x, c) at the nodes of ``models`` for a rule of `TESTS` and independent drafts."""

    @cache
    def steps(depth: int, drafts: int) -> Numbers:
        target, draft = models.target[depth], models.draft[depth]
        chances, rest = TESTS[rule](target, draft, drafts)
        untested = _binomials(draft, drafts)
        law = np.broadcast_to(target[:, :, None] * 0, (*target.shape, drafts + 1)).copy()
        refused, going_on = untested[0], target[:, :1] * 0 + 1  # how often x was refused; none accepted yet
        for place, chance in enumerate(chances):
            accepted = going_on * draft * chance
            counts = _convolved(refused, untested[drafts - 1 - place])
            law[:, :, 1:] += accepted[:, :, None] * counts[:, :, :drafts]
            total = (draft * chance).sum(axis=1, keepdims=True)
            again = divide(draft * (1 - chance), 1 - total, otherwise=0)
            refused = _convolved(refused, np.stack([1 - again, again], axis=2))
            going_on = going_on * (1 - total)
        law += (going_on * rest)[:, :, None] * refused[:, :, : drafts + 1]
        return law

    return steps


def _binomials(chance: Numbers, most: int) -> list[Numbers]:
    """Return the laws [N, V, n+1] of the number of successes in n = 0..most tries of ``chance`` [N, V]."""
    laws, one = [chance[:, :, None] * 0 + 1], np.stack([1 - chance, chance], axis=2)
    for _ in range(most):
        laws.append(_convolved(laws[-1], one))
    return laws


def _convolved(first: Any, second: Any) -> Numbers:
    """Return the law of the sum of two independent numbers, from their laws [N, V, a] and [N, V, b]."""
    width = first.shape[2] + second.shape[2] - 1
    law = np.broadcast_to(first[:, :, :1] * 0, (*first.shape[:2], width)).copy()
    for place in range(second.shape[2]):
        law[:, :, place : place + first.shape[2]] += first * second[:, :, place : place + 1]
    return law
