"""Instances and their files."""

import json
from fractions import Fraction

import pytest
from hypothesis import given

from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import KINDS, Instance
from tests.strategies import instances

GOOD = {
    "vocab_size": 2,
    "draft_length": 1,
    "num_paths": 2,
    "target": {"": ["1/3", "2/3"], "0": [0.1, 0.9], "1": [1, 0]},
    "draft": {"": [0.5, 0.5]},
}


def test_decimals_are_read_as_the_decimals_they_spell(tmp_path):
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(GOOD))
    instance = Instance.load(path)
    assert instance.target.conditional((0,)).tolist() == [Fraction(1, 10), Fraction(9, 10)]
    assert (instance.vocab_size, instance.draft_length, instance.num_paths) == (2, 1, 2)


@given(instances(num_paths=(1, 3)))
def test_files_round_trip(tmp_path_factory, instance):
    path = tmp_path_factory.mktemp("instances") / "one.json"
    instance.save(path)
    again = Instance.load(path)
    assert again.to_json() == instance.to_json()
    assert all((a == b).all() for a, b in zip(again.target.levels, instance.target.levels, strict=True))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_makes_different_rows_after_different_contexts(kind):
    instance = Instance.random(3, 3, kind=kind, seed=4)
    rows = {tuple(row) for level in instance.target.levels for row in level}
    assert len(rows) > (20 if kind != "zipf" else 5)
    assert Instance.random(3, 3, kind=kind, seed=4).to_json() == instance.to_json()


def test_kinds_are_what_their_names_say():
    disjoint = Instance.random(4, 2, kind="disjoint")
    assert all(
        (t * d == 0).all() for t, d in zip(disjoint.target.levels, disjoint.draft.levels, strict=False)
    )
    equal = Instance.random(4, 2, kind="equal")
    assert all((t == d).all() for t, d in zip(equal.target.levels, equal.draft.levels, strict=False))
    point = Instance.random(4, 2, kind="point-mass")
    assert all(set(level.reshape(-1)) == {0.0, 1.0} for level in point.draft.levels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_length": None}, 'key "draft_length" is missing'),
        ({"draft_length": 0}, "draft_length: expected at least 1"),
        ({"draft_length": 1.5}, "draft_length: expected a whole number"),
        ({"num_paths": 0}, "num_paths: expected at least 1"),
        ({"vocab_size": 3}, "vocab_size: is 3, but the target's rows have 2 entries"),
        ({"target": {"": [1, 0], "0": [1, 0]}}, 'target, context "1": is missing'),
        ({"target": [1]}, "target: expected an object"),
        ({"draft": {"": [0.5, 0.25, 0.25]}}, "draft: has 3 tokens, the target 2"),
        ({"drafts": {}}, "unknown key 'drafts'; did you mean 'draft'?"),
        ({"draft_length": 2}, 'context "0,0": is missing'),
    ],
)
def test_errors_name_what_is_wrong(tmp_path, change, message):
    data = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidInputError) as caught:
        Instance.load(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("{", "not JSON"), ("[]", "JSON object")])
def test_broken_files_are_one_clear_line(tmp_path, text, message):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        Instance.load(path)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Instance.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "odd"}, "kind: unknown 'odd'"),
        ({"concentration": 0}, "concentration: expected a positive number"),
        ({"agreement": 2}, "agreement: expected a number in"),
    ],
)
def test_random_instances_refuse_bad_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Instance.random(3, 2, **options)
