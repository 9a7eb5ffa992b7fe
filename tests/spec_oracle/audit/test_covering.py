"""The covering design: every value first, every pair in the end, cheap points first, no impossible point."""

from itertools import combinations, product

from spec_oracle.audit.covering import covering, parts_of

AXES = {
    "size": (3, 1, 2, 10, 100, 1000),
    "length": (1, 2, 5, 16),
    "type": ("float64", "float32", "float16"),
    "place": ("first", "last"),
}


def cost(point):
    return 10 + point["size"] * point["length"]


def few_numbers(point, kept):
    """Allow 2,000 numbers, shorter where the length may be changed; the last place needs others."""
    if point["size"] * point["length"] > 2_000 and "length" not in kept:
        point["length"] = 1
    if point["place"] == "last" and point["size"] == 1:
        if "place" in kept and "size" in kept:
            return None
        point["place" if "size" in kept else "size"] = "first" if "size" in kept else 2
    return point if point["size"] * point["length"] <= 2_000 else None


def pairs(points):
    return {pair for point in points for pair in parts_of(point, 2)}


def possible(axes):
    return {
        pair
        for one, other in combinations(axes, 2)
        for pair in product([(one, v) for v in axes[one]], [(other, v) for v in axes[other]])
    }


def test_every_value_comes_first_in_few_points_and_by_cost():
    found = covering(AXES, cost=cost, repair=few_numbers)
    assert {part for point in found.values for part in parts_of(point, 1)} == {
        ((axis, value),) for axis, values in AXES.items() for value in values
    }
    assert len(found.values) <= 8
    costs = [cost(point) for point in found.values]
    assert costs == sorted(costs)


def test_every_pair_that_can_come_together_does():
    assert pairs([*(found := covering(AXES)).values, *found.pairs]) == possible(AXES)
    found = covering(AXES, cost=cost, repair=few_numbers)
    impossible = {
        *((("size", 1000), ("length", length)) for length in (5, 16)),
        (("size", 1), ("place", "last")),
    }
    assert pairs([*found.values, *found.pairs]) == possible(AXES) - impossible


def test_each_point_is_possible_and_has_a_pair_that_none_before_it_has():
    found = covering(AXES, cost=cost, repair=few_numbers)
    known = pairs(found.values)
    for point in found.pairs:
        assert point["size"] * point["length"] <= 2_000
        assert not {*parts_of(point, 2)} <= known
        known |= {*parts_of(point, 2)}


def test_equal_arguments_give_equal_points():
    assert covering(AXES, cost=cost, repair=few_numbers) == covering(AXES, cost=cost, repair=few_numbers)


def test_known_points_are_not_repeated():
    usual = {axis: values[0] for axis, values in AXES.items()}
    found = covering(AXES, known=[usual])
    assert pairs([*found.values, *found.pairs]) | pairs([usual]) == possible(AXES)
    every = covering(AXES)
    assert covering(AXES, known=[*every.values, *every.pairs]) == ([], [])


def test_a_quarter_of_the_cost_pays_for_most_pairs():
    """Costs are of four decades, as those of shapes are."""
    axes = {"a": range(11), "b": range(8), "c": range(7), "d": range(6), "e": range(4)}

    def steep(point):
        return 60 + 3.0 ** point["a"] + 2.5 ** point["c"]

    found = covering(axes, cost=steep)
    points = [*found.values, *found.pairs]
    total, spent, known = sum(map(steep, points)), 0.0, set()
    shares = {}
    for point in points:
        spent += steep(point)
        known |= pairs([point])
        shares |= {part: len(known) for part in (0.25, 0.5) if spent <= part * total}
    assert known == possible(axes)
    assert shares[0.25] >= 0.85 * len(known)
    assert shares[0.5] >= 0.9 * len(known)
