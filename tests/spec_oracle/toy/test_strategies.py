"""The public strategies keep their promises."""

from hypothesis import Phase, find, given, settings

from spec_oracle.toy import strategies


@given(strategies.instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=300))
def test_sizes_stay_in_range(instance):
    assert 2 <= instance.vocab_size <= 4
    assert 1 <= instance.draft_length <= 3
    assert 1 <= instance.num_paths <= 3
    assert instance.vocab_size ** (instance.draft_length * instance.num_paths) <= 300


@given(strategies.instances(dyadic=True))
def test_dyadic_instances_are_equal_in_floats(instance):
    for model in (instance.target, instance.draft):
        for exact, floats in zip(model.levels, model.floats.levels, strict=True):
            assert (exact == floats).all()


@given(strategies.instances())
def test_rows_sum_to_one(instance):
    for model in (instance.target, instance.draft):
        assert all((level.sum(axis=1) == 1).all() for level in model.levels)


def _quiet(**options):
    return settings(derandomize=True, database=None, max_examples=2000, **options)


def test_zeros_ties_equal_rows_and_disjoint_supports_occur():
    def row(instance):
        return instance.target.levels[0][0], instance.draft.levels[0][0]

    finders = [
        lambda i: (row(i)[0] == row(i)[1]).all() and 0 < row(i)[0][0] < 1,
        lambda i: (row(i)[0] * row(i)[1] == 0).all(),
        lambda i: 0 in row(i)[0].tolist() and 1 not in row(i)[0].tolist(),
        lambda i: len({tuple(r) for level in i.target.levels for r in level}) > 5,
    ]
    for wanted in finders:
        # Whether one occurs is the question, not how small it can be made.
        find(strategies.instances(), wanted, settings=_quiet(phases=[Phase.generate]))


def test_examples_shrink_to_few_tokens_and_short_drafts():
    sizes = {"vocab_sizes": (2, 3), "draft_lengths": (1, 2), "num_paths": (1, 2)}
    smallest = find(strategies.instances(**sizes), lambda _: True, settings=_quiet())
    assert (smallest.vocab_size, smallest.draft_length, smallest.num_paths) == (2, 1, 1)
    assert {number for row in smallest.target.levels[0] for number in row} == {0, 1}
