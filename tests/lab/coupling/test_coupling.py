"""The exact distributions of coupled drafts: against integrals, against the code, against closed forms."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import qmc

import verifiers
from lab.claims.coupling import lemma
from lab.claims.families import context_free, prefix_dependent
from lab.coupling.coupling import coupled_emission_law, coupled_law, list_matching_bound, matches_law
from lab.coupling.list_coupling import race
from spec_oracle.exact import emission_law
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.toy import Instance
from tests.strategies import examples, instances, rows

TREES = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=729)


@st.composite
def pairs(draw, sizes=(2, 4)):
    """Rows of target and draft over equally many tokens."""
    vocab = draw(st.integers(*sizes))
    return tuple(draw(rows(vocab, draw(st.sampled_from((1, 2, 3, 5, 8))))) for _ in range(2))


def some_match(law):
    return sum(mass for (matches, _), mass in law.items() if matches)


def ratio(p, q):
    return p / q if q else float("inf")


def test_a_draft_and_the_emitted_token_by_integration():
    """P(X = a, Y = b) as the integral over the noise of a and b, without the derivation of the module."""
    p, q = (np.array(row) / 20 for row in ([8, 5, 4, 3], [3, 9, 2, 6]))
    law = coupled_law(p.tolist(), [q.tolist()])

    def equal(time, a):
        return np.exp(-time * np.maximum(q / q[a], p / p[a]).sum())

    def unequal(angle, a, b):
        # With E_a = r s and E_b = r (1 - s) the integral over r is that of r exp(-r rate): 1 / rate^2.
        first, second = angle, 1 - angle
        if first / q[a] >= second / q[b] or second / p[b] >= first / p[a]:
            return 0.0
        others = [i for i in range(4) if i not in (a, b)]
        return (1 + sum(max(first * q[i] / q[a], second * p[i] / p[b]) for i in others)) ** -2

    for a, b in product(range(4), repeat=2):
        if a == b:
            found = quad(equal, 0, np.inf, args=(a,))[0]
        else:
            edges = sorted((q[a] / (q[a] + q[b]), p[a] / (p[a] + p[b])))
            found = quad(unequal, *edges, args=(a, b), limit=200)[0]
        assert law.get(((a,), b), 0) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("paths", [2, 3])
def test_several_paths_by_integration_of_the_code(paths):
    """Drafts and emitted token of `race` over a Sobol sequence of 2^16 points: integration error < 0.002."""
    p, q = [np.array(row) / 12 for row in ([5, 4, 3], [2, 3, 7])]
    drafters = [q, q[::-1], q][:paths]
    points = qmc.Sobol(paths * 3, rng=np.random.default_rng(1)).random_base2(16).reshape(-1, paths, 3)
    drafts = np.stack(
        [race(np.broadcast_to(row, points[:, 0].shape), points[:, k]) for k, row in enumerate(drafters)],
        axis=1,
    )
    emitted = race(np.broadcast_to(p, points[:, 0].shape), points.max(axis=1))
    law = coupled_law(p.tolist(), [row.tolist() for row in drafters])
    outcomes = product(product(range(3), repeat=paths), range(3))
    for x, y in outcomes:
        share = ((drafts == x).all(axis=1) & (emitted == y)).mean()
        assert law.get((x, y), 0) == pytest.approx(share, abs=0.002)


@given(pairs(), st.integers(1, 3))
def test_every_path_drafts_by_q_and_the_emitted_token_is_by_p(pair, paths):
    target, draft = pair
    drafters = [draft, target, draft[::-1]][:paths]
    law = coupled_law(target, drafters)
    for token in range(len(target)):
        assert sum(mass for (_, y), mass in law.items() if y == token) == target[token]
        for path, row in enumerate(drafters):
            assert sum(mass for (x, _), mass in law.items() if x[path] == token) == row[token]


@given(pairs())
def test_one_path_has_a_closed_form(pair):
    """Equations (3) and (4); the integral of (4) between two edges is (stop - start) / (product of sums)."""
    target, draft = pair
    law = coupled_law(target, [draft])
    tokens = range(len(target))

    def total(x):
        return sum(max(x * q, p) for p, q in zip(target, draft, strict=True))

    edges = sorted({p / q for p, q in zip(target, draft, strict=True) if q})
    for a, b in product(tokens, repeat=2):
        found = law.get(((a,), b), 0)
        if not (target[b] and draft[a]):
            expected = 0
        elif a == b:
            terms = zip(draft, target, strict=True)
            expected = 1 / sum(max(q / draft[a], p / target[a]) for q, p in terms)
        else:
            start, stop = target[a] / draft[a], ratio(target[b], draft[b])
            inside = [x for x in edges if start <= x <= stop]
            expected = sum(target[b] * draft[a] * (y - x) / total(x) / total(y) for x, y in pairwise(inside))
            if stop == float("inf"):
                # Beyond the last edge total(x) is x: the integral of 1 / x^2.
                expected += (
                    target[b]
                    * draft[a]
                    / (inside[-1] + sum(p for p, q in zip(target, draft, strict=True) if not q))
                )
        assert found == expected


@given(pairs())
def test_a_draft_is_replaced_by_a_token_of_larger_ratio_only(pair):
    target, draft = pair
    for ((x,), y), mass in coupled_law(target, [draft]).items():
        assert mass > 0
        assert x == y or ratio(target[x], draft[x]) < ratio(target[y], draft[y])


@given(pairs(sizes=(2, 3)), st.integers(1, 3), st.integers(0, 2))
def test_the_number_of_matches_sums_over_the_drafts(pair, active, bystanders):
    target, draft = pair
    expected = {}
    for (x, y), mass in coupled_law(target, [draft] * (active + bystanders)).items():
        key = x[:active].count(y), y
        expected[key] = expected.get(key, 0) + mass
    assert matches_law(target, draft, active, active + bystanders) == dict(sorted(expected.items()))


@given(pairs())
def test_one_path_accepts_between_its_bound_and_the_overlap(pair):
    target, draft = pair
    apart = sum(abs(p - q) for p, q in zip(target, draft, strict=True)) / 2
    accepted = some_match(matches_law(target, draft, 1, 1))
    assert (1 - apart) / (1 + apart) <= accepted <= 1 - apart
    if len(target) == 2:
        assert accepted == 1 - apart


@given(pairs(), st.integers(1, 3))
def test_the_list_matching_bound_is_met_exactly_if_all_drafts_have_one_ratio(pair, paths):
    target, draft = pair
    accepted = some_match(matches_law(target, draft, paths, paths))
    bound = list_matching_bound(target, draft, paths)
    one_ratio = len({p / q for p, q in zip(target, draft, strict=True) if q}) == 1
    assert accepted >= bound
    assert (accepted == bound) == (paths == 1 or one_ratio)
    # In the form of the paper.
    terms = zip(target, draft, strict=True)
    formula = sum(
        paths
        / sum(
            max(q / draft[j], p / target[j]) + (paths - 1) * p / target[j]
            for p, q in zip(target, draft, strict=True)
        )
        for j, (mass, drafted) in enumerate(terms)
        if mass and drafted
    )
    assert bound == formula


@given(TREES, st.booleans())
@examples(50)
def test_lossless_in_rationals_and_below_the_optimum(instance, all_race):
    law = coupled_emission_law(instance, all_race=all_race)
    assert law.total_variation == 0
    assert sum(law.accepted_length_pmf) == 1
    assert float(law.block_efficiency) <= multi_path_optimum(instance).value + 1e-9
    floats = coupled_emission_law(instance, all_race=all_race, exact=False)
    for one, other in zip(law.masses, floats.masses, strict=True):
        np.testing.assert_allclose(one.astype(float), other, rtol=0, atol=1e-9)


@given(TREES)
@examples(50)
def test_strong_invariance_costs_block_efficiency(instance):
    weak, strong = (coupled_emission_law(instance, all_race=b).block_efficiency for b in (False, True))
    assert strong <= weak
    assert instance.num_paths > 1 or strong == weak


def test_mean_gap_of_the_list_matching_bound():
    """Over V = 3 and denominators 1..5: what the bound lacks, in probability of a match."""
    for paths, mean, largest in ((2, 0.02438, Fraction(9, 100)), (3, 0.03620, Fraction(1, 8))):
        family = context_free(vocab_sizes=(3,), paths=(paths,), denominators=range(1, 6))
        gaps = [figures["list coupling"] - figures["lemma"] for figures in map(lemma, family.instances())]
        assert float(sum(gaps) / len(gaps)) == pytest.approx(mean, abs=5e-6)
        assert max(gaps) == largest


def test_mean_shortfall_from_the_optimum():
    """The figures of docs/rules/coupled-drafts.md, in percent."""
    found = []
    for instance in prefix_dependent([(2, 3, 2)], count=20).instances():
        laws = [coupled_emission_law(instance, all_race=all_race) for all_race in (False, True)]
        laws += [emission_law(verifiers.get(name), instance) for name in ("recursive_rejection", "traversal")]
        best = multi_path_optimum(instance).value
        found.append([100 * (1 - float(law.block_efficiency) / best) for law in laws])
    np.testing.assert_allclose(np.mean(found, axis=0), [6.24, 7.63, 5.69, 4.76], rtol=0, atol=0.005)


def test_one_step_of_two_paths_by_hand():
    """Token 0 is emitted; each path drafts it unless its noise for token 1 is the smaller."""
    toy = Instance.context_free([1, 0], ["1/2", "1/2"], draft_length=1, num_paths=2)
    assert coupled_emission_law(toy).accepted_length_pmf == (Fraction(1, 4), Fraction(3, 4))
