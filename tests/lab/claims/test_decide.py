"""A question is answered by the first instance that decides, or by all of them."""

from fractions import Fraction
from itertools import islice
from math import lcm

import pytest

from lab.claims import Question, Ruling, Scope, decide
from lab.claims.families import context_free, prefix_dependent, rows

FAMILY = context_free(denominators=(1, 2, 3))


def question(holds, scope):
    return Question(
        "statement",
        "source",
        lambda instance: {"p": instance.target.levels[0][0][0]},
        lambda figures: holds(figures["p"]),
        FAMILY,
        scope,
    )


@pytest.mark.parametrize(
    ("holds", "scope", "verdict"),
    [
        (lambda p: p <= 1, Scope.EVERY, Ruling.HOLDS),
        (lambda p: p in (1, Fraction(1, 2)), Scope.EVERY, Ruling.REFUTED),
        (lambda p: p == Fraction(2, 3), Scope.SOME, Ruling.PROVED),
        (lambda p: p > 1, Scope.SOME, Ruling.UNDECIDED),
    ],
)
def test_rulings_follow_from_results_and_scope(holds, scope, verdict):
    claim = decide(question(holds, scope))
    everything = list(FAMILY.instances())
    assert claim.verdict is verdict
    if verdict in (Ruling.REFUTED, Ruling.PROVED):
        assert claim.figures == {"p": Fraction(2, 3)}
        assert claim.instance.target.levels[0][0][0] == Fraction(2, 3)
        earlier = islice(FAMILY.instances(), claim.tried - 1)
        assert all(instance.target.levels[0][0][0] != Fraction(2, 3) for instance in earlier)
    else:
        assert claim.tried == len(everything)
        assert claim.instance is None
        assert claim.figures == {}


def test_rows_are_all_rows():
    found = list(rows(3, 4))
    assert len(found) == len(set(found)) == 15
    assert all(sum(row) == 1 for row in found)


def test_context_free_instances_come_once_and_from_small_to_large():
    family = context_free(vocab_sizes=(2, 3), paths=(1, 2), denominators=(1, 2, 3))
    keys, seen = [], set()
    for instance in family.instances():
        target, draft = (tuple(model.levels[0][0]) for model in (instance.target, instance.draft))
        common = lcm(*(mass.denominator for mass in target + draft))
        keys.append((instance.draft_length, instance.vocab_size, instance.num_paths, common))
        seen.add((*keys[-1], target, draft))
        assert list(target) == sorted(target, reverse=True)
    assert keys == sorted(keys)
    assert len(seen) == len(keys)


def test_families_are_the_same_every_time_and_can_be_joined_and_thinned():
    family = context_free(denominators=(2,)) + prefix_dependent([(2, 2, 2)], count=3)
    once, twice = ([instance.to_json() for instance in family.instances()] for _ in range(2))
    assert once == twice
    thinned = family.where("several paths", lambda instance: instance.num_paths > 1)
    assert [instance.to_json() for instance in thinned.instances()] == once[-3:]
    assert thinned.name == f"{family.name}, several paths"
    assert once[-1]["target"]["0"] != once[-1]["target"]["1"]
