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
def test_errors_name_the_argument(tmp_path, change, message):
    data = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidInputError) as caught:
        Instance.load(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


LARGE = {
    "1e999999999": "has an exponent beyond 400",
    "-1e999999999": "has an exponent beyond 400",
    "1e-999999999": "has an exponent beyond 400",
    "1" + "0" * 100_000: "has 100,001 characters, more than the 1,000 that are read",
    "0." + "3" * 5_000: "has 5,002 characters, more than the 1,000 that are read",
}
"""What no probability is, as a string or as a number of JSON, and what is said of it."""

LARGE_TEXTS = {
    "1_0e9_9999_9999": "has an exponent beyond 400",
    "1/1e999999999": "has an exponent beyond 400",
    "1/1" + "0" * 100_000: "has 100,003 characters, more than the 1,000 that are read",
    "1e999999999/3": "is not a number",
}
"""The same as strings only."""


@pytest.mark.parametrize(
    ("written", "message"),
    [*((json.dumps(text), says) for text, says in (LARGE | LARGE_TEXTS).items()), *LARGE.items()],
    ids=[text[:20] for text in (*LARGE, *LARGE_TEXTS, *(f"number {text}" for text in LARGE))],
)
def test_numbers_without_end_are_refused_at_once(tmp_path, written, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(GOOD).replace("0.1", written))
    with pytest.raises(InvalidInputError) as caught:
        Instance.load(path)
    assert 'target, context "0", token 0: ' in str(caught.value)
    assert str(caught.value).endswith(message)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e400", "'1e400' is more than 1"),
        ("2", "'2' is more than 1"),
        ("inf", "'inf' is not a number"),
        ("nan", "'nan' is not a number"),
        (10**900, f"1{'0' * 59}... is more than 1"),
        (10**9000, "an integer of thousands of digits is more than 1"),
    ],
    ids=["exponent", "two", "infinity", "nan", "900 digits", "9,000 digits"],
)
def test_entries_that_are_no_probabilities_are_named(value, message):
    target = {**GOOD["target"], "0": [value, 0.9]}
    with pytest.raises(InvalidInputError) as caught:
        Instance.from_json({**GOOD, "target": target})
    assert str(caught.value) == f'target, context "0", token 0: {message}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            json.dumps({**GOOD, "draft_length": None}).replace("null", "9" * 5000),
            "draft_length: expected a whole number",
        ),
        (
            json.dumps({**GOOD, "vocab_size": None}).replace("null", "1e999999999"),
            "vocab_size: is 1e999999999, but",
        ),
        ("[" * 100_000, "not JSON"),
        (json.dumps({**GOOD, "num_paths": 10**9}), "num_paths: expected at most 1,000, got 1000000000"),
    ],
)
def test_files_without_end_are_refused_at_once(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        Instance.load(path)


def test_small_and_long_probabilities_are_read_exactly(tmp_path):
    path = tmp_path / "good.json"
    path.write_text(json.dumps(GOOD).replace("[0.1, 0.9]", f'["1e-300", "{"9" * 300}e-300"]'))
    assert Instance.load(path).target.conditional((0,))[0] == Fraction(1, 10**300)


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
