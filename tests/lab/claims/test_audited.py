"""What is said of published rules, computed once more by hand, and their code in other arithmetics."""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

from lab.claims import Ruling
from lab.claims.audited import QUESTIONS, TREES, divergence
from lab.claims.published import (
    BatchGreedy,
    Cactus,
    Hierarchical,
    HierarchicalCapped,
    SynchronousSSD,
    Typical,
)
from lab.claims.siblings import SiblingWalk
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.lab.claims.decided import decided_claim, first_rows
from verifiers import Siblings
from verifiers.rules.recursive_rejection_distinct import reject_distinct_in_turn

RULES = (
    *(Hierarchical(), Hierarchical(corrected=True), HierarchicalCapped(), Cactus(), SynchronousSSD()),
    *(BatchGreedy(), Typical(), SiblingWalk(), SiblingWalk(rule=reject_distinct_in_turn)),
    SiblingWalk(Siblings.INDEPENDENT, raw_bonus=True),
)


decided = partial(decided_claim, QUESTIONS)


def named(rule):
    return f"{type(rule).__name__}-{rule}" if rule in RULES[:2] else type(rule).__name__


@pytest.mark.parametrize("rule", RULES, ids=named)
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_floats_and_rationals_agree(rule, array):
    for seed in range(2):
        instance = Instance.random(3, 2, num_paths=2, seed=seed).rounded(12)
        exact, floats = emission_law(rule, instance, exact=True), emission_law(rule, instance, array=array)
        pairs = zip(exact.masses, floats.masses, strict=True)
        assert max(abs(a.astype(float) - b).max() for a, b in pairs) < 1e-8  # roots have nine digits


@pytest.mark.parametrize("words", ["with probability min(1, r_L)", "with weights min(1, r_k)"])
def test_hsd_by_hand(words):
    claim = decided(words)
    p, q = first_rows(claim)
    assert claim.verdict is Ruling.REFUTED
    assert claim.instance.draft_length == 2
    law = dict.fromkeys(product(range(2), repeat=2), Fraction(0))
    for x, y in law:
        drawn, first, second = q[x] * q[y], p[x] / q[x], p[x] * p[y] / (q[x] * q[y])
        weight = min(Fraction(1), first)
        above = [max(weight * a - b, 0) for a, b in zip(p, q, strict=True)]
        below = [max(b - weight * a, 0) for a, b in zip(p, q, strict=True)]
        whole = min(Fraction(1), second)
        law[x, y] += drawn * whole
        keep = (
            sum(above) / max(sum(above), sum(below)) if whole < 1 else 0
        )  # min(1, r_k) changes nothing here
        for z, left in enumerate(above if keep else ()):
            law[x, z] += drawn * (1 - whole) * keep * left / sum(above)
        left = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
        for z, v in law:
            law[z, v] += drawn * (1 - whole) * (1 - keep) * left[z] / sum(left) * p[v]
    distance = sum(abs(mass - p[x] * p[y]) for (x, y), mass in law.items()) / 2
    assert claim.figures["total variation"] == distance > 0


def test_the_corrected_end_of_hsd_is_that_of_block_verification():
    assert decided("in place of r_L").verdict is Ruling.HOLDS
    claim = decided("HSD emits at most")
    assert claim.figures == {"HSD": Fraction(7, 3), "single-path optimum": Fraction(20, 9)}


def test_cactus_by_hand():
    claim = decided("ten times its budget")
    p, q = first_rows(claim)
    budget = claim.figures["budget"]
    assert claim.verdict is Ruling.REFUTED
    raised = [x + Fraction(math.sqrt(2 * budget * x * (1 - x))).limit_denominator(1000) for x in p]
    assert (p[1], raised[1]) == (Fraction(1, 10), q[1])  # so that every draft is accepted
    assert claim.figures["KL(emitted, p)"] == Fraction(math.floor(10**4 * math.log(2)), 10**4)
    for words in ("puts in place of p", "at most its budget 1/20"):
        claim = decided(words)
        p, q = first_rows(claim)
        chance = 0.5 + math.sqrt(2 * 0.05 * 0.25)
        expected = chance * math.log(2 * chance) + (1 - chance) * math.log(2 * (1 - chance))
        assert (p, q) == ([Fraction(1, 2)] * 2, [1, 0])
        assert 0 <= expected - float(next(iter(claim.figures.values()))) < 1e-4


def test_divergences_are_truncated():
    assert divergence([Fraction(1), Fraction(0)], [Fraction(1, 2)] * 2) == Fraction(6931, 10000)
    assert divergence(*[np.array([Fraction(1, 3), Fraction(2, 3)])] * 2) <= 0


def test_ssd_by_hand():
    claim = decided("at temperatures above 0")
    p, q = first_rows(claim)
    likeliest = p.index(max(p))
    assert claim.instance.draft_length == 1
    assert claim.figures["total variation"] == q[likeliest] * (1 - p[likeliest]) > 0
    assert decided("at temperature 0").verdict is Ruling.HOLDS


def test_eagle_by_hand():
    claim = decided("as many tokens as recursive rejection")
    p, q = first_rows(claim)
    accepted = sum(q[x] * q[y] * (p[x] if x == y else p[x] + p[y]) for x, y in product(range(2), repeat=2))
    assert claim.figures["siblings as certain"] == 1 + accepted < claim.figures["recursive_rejection"]
    claim = decided("all but the last are the most likely")
    p, q = first_rows(claim)
    assert p == q  # the most likely token is always drafted, and p(x)/q(x) = 1 accepts it
    assert claim.figures["total variation"] == 1 - p[0] > 0
    claim = decided("temperature 2")
    p, q = first_rows(claim)
    bonus = p[0] ** 2 / sum(x**2 for x in p)
    assert (q[0], claim.instance.draft_length) == (1, 1)
    assert claim.figures["total variation"] == p[0] * abs(bonus - p[0]) > 0


def test_trees_are_deterministic():
    for instance in TREES.instances():
        assert np.count_nonzero(instance.draft.levels[0]) == instance.num_paths
        assert all((np.count_nonzero(level, axis=1) == 1).all() for level in instance.draft.levels[1:])


def test_eqspec_by_hand():
    assert decided("greedy completion").verdict is Ruling.HOLDS
    claim = decided("with a bonus token")
    length = claim.instance.draft_length
    assert claim.figures == {"EQSPEC": length, "with a bonus token": length + 1}
