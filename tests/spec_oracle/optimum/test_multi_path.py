"""The optima over several paths: special cases in closed form, an independent solver, certificates, order."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from spec_oracle.exact.drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape, draft_paths
from spec_oracle.optimum import (
    block_transport_optimum,
    check_certificate,
    multi_path_optimum,
    single_path_optimum,
    tree_optimum,
)
from spec_oracle.optimum.cutting_planes import best_budgets
from spec_oracle.optimum.drafts import PrefixTree, trees_of
from spec_oracle.toy import Instance
from tests.strategies import at_night
from tests.verifiers.balanced_reference import optimal_acceptance
from verifiers import ROOT, Siblings
from verifiers.parts.transport_plan import transport_plan

OPTIMA = {"multi_path": multi_path_optimum, "block_transport": block_transport_optimum}
TOY = Instance.random(3, 2, num_paths=2, seed=1).rounded(12)
both = pytest.mark.parametrize("optimum", OPTIMA.values(), ids=OPTIMA.keys())


def joint(instance, model):
    return np.concatenate([getattr(instance.exact, model).joint(d) for d in range(instance.draft_length + 1)])


@both
def test_certificates_are_proofs_without_gap(optimum, random_instance):
    found = optimum(random_instance, exact=True)
    assert check_certificate(random_instance, found.certificate) == found.gap == 0
    assert optimum(random_instance).value == pytest.approx(float(found.value), abs=0)


@both
def test_certificates_are_proofs_under_every_drafting_law(optimum, drafting, special_instance):
    found = optimum(special_instance, drafting=drafting)
    assert getattr(found.certificate, "drafting", Siblings.INDEPENDENT) is drafting
    assert check_certificate(special_instance, found.certificate) == found.gap == 0


def test_one_path_gives_the_closed_forms(random_instance):
    instance = random_instance.with_paths(1)
    closed = single_path_optimum(instance, exact=True).value
    assert multi_path_optimum(instance, exact=True).value == closed
    # With carry-over w(v) = min(p(v), q(v)) meets every upper limit at once and leaves stop masses >= 0.
    shared = np.minimum(joint(instance, "target"), joint(instance, "draft")).sum()
    assert block_transport_optimum(instance, exact=True).value == shared


def test_carry_over_reaches_the_ideal_of_the_worked_example(worked_example):
    one_path = worked_example.with_paths(1)
    assert block_transport_optimum(one_path, exact=True).value == 1 + Fraction(12, 9)


@both
@pytest.mark.parametrize("kind", ["dirichlet", "sparse", "reversed", "disjoint", "equal", "point-mass"])
def test_one_token_gives_one_plus_the_optimal_acceptance(optimum, kind):
    instance = Instance.random(4, 1, num_paths=3, kind=kind, seed=3)
    target, draft = instance.exact.target.rows(0)[0], instance.exact.draft.rows(0)[0]
    acceptance = optimal_acceptance(target, draft, 3)
    assert optimum(instance, exact=True).value == 1 + acceptance


def test_one_token_is_the_smallest_cut_under_every_drafting_law(drafting):
    instance = Instance.random(4, 1, num_paths=2, seed=5).exact
    law = draft_paths(2, 1, drafting).law(instance)
    target = instance.target.rows(0)[0]
    cuts = [
        1 - target[list(chosen)].sum() + law.probability[np.isin(law.tokens, chosen).any(axis=1)].sum()
        for size in range(5)
        for chosen in combinations(range(4), size)
    ]
    assert multi_path_optimum(instance, drafting=drafting, exact=True).value == 1 + min(cuts)


def flow_program(instance, ceiling):
    """Return the optimum of docs/theory.md's linear program over budgets and flows, by HiGHS."""
    trees = trees_of(instance.exact, Siblings.INDEPENDENT)
    parent = PrefixTree(instance.vocab_size, instance.draft_length).parent
    target, nodes = joint(instance, "target").astype(float), len(parent)
    arcs = [(t, node) for t, tree in enumerate(trees.nodes) for node in tree]
    carried = np.zeros((len(trees.nodes), nodes + len(arcs)))
    received = np.zeros((nodes, nodes + len(arcs)))
    for arc, (t, node) in enumerate(arcs):
        carried[t, nodes + arc] = received[node, nodes + arc] = 1
    for node in range(nodes):
        received[node, node] -= target[node]
        if node:
            received[parent[node], node] += target[node]
    falling = np.zeros((nodes - 1, nodes + len(arcs)))
    for node in range(1, nodes):
        falling[node - 1, node], falling[node - 1, ceiling[node]] = 1, -1
    solved = linprog(
        np.concatenate([-target, np.zeros(len(arcs))]),
        A_ub=falling,
        b_ub=np.zeros(nodes - 1),
        A_eq=np.concatenate([carried, received]),
        b_eq=np.concatenate([trees.probability.astype(float), np.zeros(nodes)]),
        bounds=[(1, 1)] + [(0, None)] * (nodes - 1 + len(arcs)),
        method="highs",
    )
    assert solved.success, solved.message
    return -solved.fun


@pytest.mark.parametrize("seed", [0, *at_night(*range(1, 6))])
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)], ids=str)
def test_an_independent_solver_of_the_whole_program_agrees(shape, seed):
    vocab, length, paths = shape
    instance = Instance.random(vocab, length, num_paths=paths, seed=seed, agreement=0.2)
    parent = PrefixTree(vocab, length).parent
    assert multi_path_optimum(instance).value == pytest.approx(flow_program(instance, parent), abs=1e-9)
    carried_over = flow_program(instance, np.zeros_like(parent))
    assert block_transport_optimum(instance).value == pytest.approx(carried_over, abs=1e-9)


@both
def test_floats_only_save_time(optimum, random_instance, monkeypatch):
    expected = optimum(random_instance, exact=True).value
    monkeypatch.setattr("spec_oracle.optimum.cutting_planes.float_optimum", lambda *_: None)
    unaided = optimum(random_instance, exact=True)
    assert unaided.value == expected
    assert check_certificate(random_instance, unaided.certificate) == 0


def test_more_freedom_is_never_worse(random_instance):
    values = [multi_path_optimum(random_instance.with_paths(n), exact=True).value for n in (1, 2, 3)]
    assert values == sorted(values)
    free = block_transport_optimum(random_instance.with_paths(2), exact=True).value
    assert values[1] <= free <= random_instance.draft_length + 1


def published_masses(instance):
    """Return w(v) = p(v) (1 - (1 - min(1, q(v)/p(v)))^K), SpecTr-GBV's carry-over masses."""
    target, draft = joint(instance, "target"), joint(instance, "draft")
    ratio = np.array(
        [min(Fraction(1), q / p) if p else Fraction(0) for p, q in zip(target, draft, strict=True)]
    )
    return target * (1 - (1 - ratio) ** instance.num_paths)


def test_published_carry_over_masses_stay_below_the_optimum(random_instance):
    published = published_masses(random_instance).sum()
    assert published <= block_transport_optimum(random_instance, exact=True).value


@pytest.mark.parametrize("number", [Fraction, float])
def test_published_carry_over_masses_can_be_transported(number, random_instance):
    trees = trees_of(random_instance.exact, Siblings.INDEPENDENT)
    parent = PrefixTree(random_instance.vocab_size, random_instance.draft_length).parent
    stop = published_masses(random_instance)
    np.subtract.at(stop, parent[1:], stop[1:].copy())
    kind = object if number is Fraction else float
    plan = transport_plan(stop.astype(kind), trees.nodes, trees.probability.astype(kind))
    received = np.zeros(len(parent), dtype=kind)
    for nodes, masses in zip(trees.nodes, plan, strict=True):
        received[nodes] += masses
    if number is Fraction:
        assert (received == stop).all()
    np.testing.assert_allclose(received.astype(float), stop.astype(float), rtol=1e-13, atol=1e-15)


def test_equal_models_accept_everything():
    instance = Instance.random(3, 2, num_paths=2, kind="equal")
    assert multi_path_optimum(instance, exact=True).value == 3


def test_drawing_every_token_without_replacement_accepts_the_first_token():
    instance = Instance.random(3, 1, num_paths=3, seed=1)
    assert multi_path_optimum(instance, drafting=Siblings.DISTINCT, exact=True).value == 2


@both
@pytest.mark.parametrize("shape", [(4, 3, 3), (3, 4, 3), (3, 3, 16), (2, 6, 4)], ids=str)
def test_thousands_to_billions_of_draft_trees_are_solved(optimum, shape):
    vocab, length, paths = shape
    instance = Instance.random(vocab, length, num_paths=paths, agreement=0.3)
    assert check_certificate(instance, optimum(instance).certificate) == 0


@pytest.mark.parametrize("carry_over", [False, True])
def test_the_program_over_all_draft_trees_has_the_same_optimum(carry_over, random_instance):
    numbers = random_instance.exact
    prefixes = PrefixTree(numbers.vocab_size, numbers.draft_length)
    target = prefixes.joint(numbers.target)
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    budgets = best_budgets(target, ceiling, trees_of(numbers, Siblings.INDEPENDENT)).budgets
    optimum = OPTIMA["block_transport" if carry_over else "multi_path"]
    assert optimum(random_instance, exact=True).value == target @ budgets


def priority_rules(law, draft, num_paths):
    """Write a ``law`` of paths [n] as weights of rules, each a law [n]: the proof in docs/theory.md.

    A rule lists sets of paths. The first set with a drafted path wins; in it the first such path.
    """
    order = np.argsort(-(law / draft), kind="stable")
    x, left = (np.concatenate([[0], np.cumsum(part[order])]) for part in (draft, law))
    most = 1 - (1 - x) ** num_paths
    ends, rules = np.arange(len(x)), []
    while left[-1]:
        bends = -np.diff(np.diff(left[ends]) / np.diff(x[ends]))
        ends = np.concatenate([[0], ends[1:-1][bends > 0], ends[-1:]])
        ratios = np.repeat(np.diff(most[ends]) / np.diff(x[ends]), np.diff(ends))
        rule = np.empty_like(law)
        rule[order] = ratios * draft[order]
        steps = np.concatenate([[0], np.cumsum(rule[order])])
        least = bends[bends > 0] / -np.diff(np.diff(most[ends]) / np.diff(x[ends]))
        rules.append((min([left[-1], *least]), rule))
        left = left - rules[-1][0] * steps
    return rules


@both
def test_the_law_of_a_certificate_is_a_mixture_of_priority_rules(optimum):
    instance = Instance.random(3, 2, num_paths=3, seed=4, agreement=0.2)
    law = np.array(list(optimum(instance).certificate.law.values()))
    rules = priority_rules(law, instance.exact.draft.joint(2), 3)
    assert 1 < len(rules) <= len(law)
    assert sum(weight for weight, _ in rules) == 1
    assert all(weight > 0 for weight, _ in rules)
    assert (sum(weight * rule for weight, rule in rules) == law).all()


def test_over_paths_the_tree_optimum_is_the_path_optimum(drafting, special_instance):
    trees = draft_paths(special_instance.num_paths, special_instance.draft_length, drafting)
    optimum = tree_optimum(special_instance, trees, exact=True)
    assert optimum.value == multi_path_optimum(special_instance, drafting=drafting, exact=True).value
    assert check_certificate(special_instance, optimum.certificate) == 0


@pytest.mark.parametrize(
    "trees",
    [
        ShapedTrees(TreeShape((ROOT, ROOT, 1, 1))),
        ShapedTrees(TreeShape.paths(2, 2), Siblings.DISTINCT, least_token=0.4),
        LikeliestNodes(3),
        StochasticBeam(2),
    ],
)
def test_certificates_over_trees_of_any_shape(trees):
    optimum = tree_optimum(TOY, trees, exact=True)
    assert check_certificate(TOY, optimum.certificate) == 0
    assert 1 < optimum.value < 3
