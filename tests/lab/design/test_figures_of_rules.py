"""Tokens per call by node equal the enumeration of the rules, in rationals, wherever both can be had."""

import itertools

import numpy as np
import pytest

import verifiers
from lab.design.balanced import balanced_steps
from lab.design.canonical import canonical_steps
from lab.design.combinations import COMBINATIONS, LEFT_OUT, combinations_of
from lab.design.in_turn import TESTS, steps_in_turn
from lab.design.models import Models
from lab.design.walks import TooManyDraftsError, steps_of
from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.exact.drafting import ShapedTrees, TreeShape
from spec_oracle.toy import Instance
from tests.strategies import at_night
from verifiers import Siblings, drafting_of, traits_of

KINDS = ("dirichlet", "sparse", *at_night("disjoint", "equal", "point-mass"))
SIZES = ((3, 2, 2), *at_night((2, 3, 2), (3, 2, 3), (2, 2, 4)))
"""Vocabulary, draft length and paths."""


def toy(kind, vocab_size, draft_length, seed=1):
    return Instance.random(vocab_size, draft_length, kind=kind, seed=seed).rounded(12)


def enumerated(rule, instance, paths):
    law = emission_law(verifiers.get(rule), instance.with_paths(paths), exact=True)
    assert law.total_variation == 0
    return law.block_efficiency


SHAPES = ((2, 2), (1, 2, 1), *at_night(((1, 2),), ((2, 1, 2),), ((3, 1),), ((1, 3),), ((2, 2, 1),)))
ON_TREES = [one for one in COMBINATIONS if not traits_of(verifiers.get(one.rule)).paths_only]
"""Combinations whose rules run on trees."""


@pytest.mark.parametrize("fan_outs", SHAPES, ids=str)
@pytest.mark.parametrize("one", ON_TREES, ids=lambda one: f"{one.rule}-{one.drafting.value}")
def test_trees_of_any_shape_by_running_the_rule_on_every_tree(one, fan_outs):
    vocab = 3 if sum(fan_outs) < 4 or max(fan_outs) > 2 else 2
    shape = FanOuts(fan_outs)
    if one.takes != "any" and (one.takes == "path" or shape.num_paths is None):
        shape = FanOuts((1,) * shape.levels)
    instance = Instance.random(vocab, shape.levels, seed=6, concentration=3.0).rounded(40)
    assert all((level > 0).all() for level in instance.draft.levels)  # distinct drafts everywhere
    models = Models.of(instance, exact=True)
    siblings = Siblings.PATHS if one.takes == "paths" else one.drafting
    trees = ShapedTrees(TreeShape.fan_out(*shape.fan_outs), siblings)
    law = emission_law(verifiers.get(one.rule), instance, drafting=trees, exact=True)
    assert law.total_variation == 0
    assert one.figure(models)(shape) == law.block_efficiency


DECLARED = [one for one in COMBINATIONS if drafting_of(verifiers.get(one.rule)) is one.drafting]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("vocab", "length", "paths"), SIZES)
@pytest.mark.parametrize("one", DECLARED, ids=lambda one: one.rule)
def test_paths_of_one_length(one, vocab, length, paths, kind):
    most = vocab if one.drafting is Siblings.TOP_AND_SAMPLED else paths  # its drafts are distinct
    count = 1 if one.takes == "path" else min(paths, most)
    instance, shape = toy(kind, vocab, length), FanOuts((count, *[1] * (length - 1)))
    assert one.figure(Models.of(instance, exact=True))(shape) == enumerated(one.rule, instance, count)


@pytest.mark.parametrize("rule", [*TESTS, "canonical", "global_resolution"])
@pytest.mark.parametrize("kind", KINDS)
def test_laws_of_one_step_are_those_of_the_rules(rule, kind):
    models = Models.of(toy(kind, 3, 2), exact=True)
    if rule in TESTS:
        steps = steps_in_turn(rule, models)
    else:
        steps = canonical_steps(models) if rule == "canonical" else balanced_steps(models, tested=True)
    met = np.asarray(models.reachable[1] > 0, dtype=bool)  # no rule is run where the target never comes
    for drafts in (1, 2, 3):
        law = steps_of(rule, Siblings.INDEPENDENT, models)(1, drafts)
        assert (steps(1, drafts)[met] == law[met]).all()


def one_step(rule, models, drafts):
    """Return the mass of each emitted token and count at the root, by running the rule."""
    return steps_of(rule, Siblings.INDEPENDENT, models)(0, drafts)[0]


@pytest.mark.parametrize("fan_outs", [(1, 2), (2, 2), *at_night(((1, 3),), ((3, 2),))], ids=str)
@pytest.mark.parametrize("rule", ["recursive_rejection", "k_seq", "global_resolution"])
def test_a_walk_behind_a_stem_and_down_fan_outs(rule, fan_outs):
    """Below a token that was drafted c times the tree of the shape goes on, c times as wide."""
    instance = toy("dirichlet", 3, 2, seed=4)
    (figure,) = (one.figure for one in combinations_of([rule]))
    models = Models.of(instance, exact=True)
    first, second = fan_outs
    tokens, masses = 1, one_step(rule, models, first)
    for token, count in itertools.product(range(3), range(1, first + 1)):
        below = Models.of(instance.after((token,)), exact=True)
        again = one_step(rule, below, count * second)[:, 1:].sum()
        tokens = tokens + masses[token, count] * (1 + again)
    assert figure(models)(FanOuts(fan_outs)) == tokens


def test_equal_models_accept_whole_paths_of_any_shape():
    """One of the paths is accepted to its end, unless ties are ranked or other drafts are emitted."""
    models = Models.of(toy("equal", 3, 3), exact=True)
    for one in COMBINATIONS:
        for shape in (FanOuts((1, 2, 1)), FanOuts((2, 2, 1)), FanOuts((1, 1, 1))):
            if one.suits(shape, 3) and one.rule not in {
                "nss",
                "top_draft",
                "univer",
                "greedy_multipath_block",
            }:
                # The selection of `global_resolution` is that of its plan, which is near the best.
                assert float(one.figure(models)(shape)) == pytest.approx(4, abs=1e-9), one.rule


def test_block_rules_behind_a_stem_are_above_the_token_rule_there():
    models = Models.of(toy("dirichlet", 3, 3))
    shape = FanOuts((1, 2, 1))
    (walk,) = (one.figure(models)(shape) for one in combinations_of(["recursive_rejection"]))
    for rule in ("balanced_multipath_block", "lookahead_multipath_block"):
        (ours,) = (one.figure(models)(shape) for one in combinations_of([rule]))
        assert ours > walk


def traversed(models, fan_outs, context=(), weight=1, copies=1):
    """Return the tokens that traversal accepts below a context, by trying all drafts there in turn."""
    if len(context) == len(fan_outs):
        return 0
    index = int("".join(map(str, (0, *context))), models.vocab_size)
    target, draft = models.target[len(context)][index], models.draft[len(context)][index]
    total = 0
    for drawn in itertools.product(range(len(draft)), repeat=copies * fan_outs[len(context)]):
        chance = np.prod([draft[token] for token in drawn])
        p, q, a = target, draft, weight
        for token in dict.fromkeys(drawn):
            if not chance:
                break
            w = min(1, a * p[token] / q[token])
            total += chance * (w + traversed(models, fan_outs, (*context, token), w, drawn.count(token)))
            chance *= 1 - w
            if chance:
                left = np.maximum(a * p - q, 0)
                p, a = left / (left.sum() or 1), left.sum() / (left.sum() + 1 - a)
                q = np.where(np.arange(len(q)) == token, 0 * q, q) / (1 - q[token] or 1)
    return total


@pytest.mark.parametrize("fan_outs", [(1, 2), (2, 2), *at_night(((3, 1),), ((1, 3),))], ids=str)
def test_traversal_of_fan_outs(fan_outs):
    models = Models.of(toy("dirichlet", 2, 2, seed=3), exact=True)
    (traversal, _) = (one.figure(models) for one in combinations_of(["traversal"]))
    assert traversal(FanOuts(fan_outs)) == 1 + traversed(models, fan_outs)


def test_trees_that_are_too_large_are_refused():
    models = Models.of(Instance.random(6, 3, seed=1))
    with pytest.raises(TooManyDraftsError):
        steps_of("k_seq", Siblings.INDEPENDENT, models)(2, 8)
    with pytest.raises(TooManyDraftsError):
        canonical_steps(models)(2, 16)


def test_names_that_cannot_be_compared_are_refused_with_the_reason():
    known = {one.rule for one in COMBINATIONS} | LEFT_OUT.keys()
    assert known == {*verifiers.names()} - {"eagle"}
    with pytest.raises(InvalidInputError, match="greedy_block cannot be compared here: it owes"):
        combinations_of(["greedy_block"])
    with pytest.raises(InvalidInputError, match="expected one of token, block"):
        combinations_of(["tokens"])
