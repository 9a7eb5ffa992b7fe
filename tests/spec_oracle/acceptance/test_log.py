"""Aggregates that an engine reports are compared with its log, each by its definition."""

import json

import pytest

from spec_oracle.acceptance import acceptance
from spec_oracle.acceptance.log import read_calls, read_reported
from spec_oracle.acceptance.report import FORMATS
from spec_oracle.errors import InvalidInputError

SHORT = {"drafted": [1, 2], "p": [0.5, 0.5], "q": [0.5, 0.5], "prompt": 0}
LONG = {"drafted": [1, 2, 3, 4], "p": [0.5] * 4, "q": [0.5] * 4, "prompt": 1}
LOG = [SHORT | {"accepted": 2}, LONG | {"accepted": 1}, LONG | {"accepted": 0}, LONG | {"accepted": 4}]
"""4 calls, 14 drafted tokens, 7 accepted: 1.75 a call; 3, 2, 1 and 1 calls accept tokens 1 to 4."""


def judged(text, log=LOG):
    return acceptance(read_calls(map(json.dumps, log)), reported=read_reported(text), alpha=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "accepted/drafted=0.5",
        "accepted/drafted=50%",
        "length=2.75,accepted/call=1.75",
        "accepted/verified=0.78",
        "positions=0.75,0.5,0.25,0.250",
        "calls=4,drafted=14,accepted=7",
        "tokens=11",
        "tokens=12,length=2.7",
    ],
)
def test_right_aggregates_agree(text):
    found = judged(text)
    assert all(one.agrees for one in found.aggregates)
    assert found.exit_code == 2
    assert "agrees with the log" in FORMATS["text"](found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("length=1.75", "length=1.75 contradicts the log, which has 2.75 (tokens per call)"),
        ("accepted/drafted=0.44", "which has 0.5 (accepted tokens per drafted token)"),
        ("positions=0.75,0.5,0.33,0.33", "which has 0.75,0.5,0.25,0.25 (the share of all calls"),
        ("positions=0.75,0.5", "positions=0.75,0.5 contradicts the log, which has 0.75,0.5,0.25,0.25"),
        ("accepted=11", "which has 7 (accepted tokens)"),
        ("tokens=30", "which has 11 (tokens of the completions: one of each call, and those it accepted)"),
    ],
)
def test_wrong_aggregates_contradict_the_log(text, said):
    found = judged(text)
    assert [one.agrees for one in found.aggregates] == [False]
    assert found.exit_code == 1
    assert said in FORMATS["text"](found)


def test_tokens_need_to_know_where_completions_begin():
    unlabelled = [{name: value for name, value in one.items() if name != "prompt"} for one in LOG]
    with pytest.raises(InvalidInputError, match='--reported tokens: the log needs a "prompt" in each call'):
        judged("tokens=11", unlabelled)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lenght=1.9", "--reported: unknown name 'lenght'; did you mean 'length'"),
        ("0.5", "--reported: expected NAME=VALUE, got '0.5'"),
        ("length=much", "--reported: length: expected a number, got 'much'"),
        ("length=1.9,2.0", "--reported: length: expected one number, got 1.9,2.0"),
        ("length=nan", "--reported: length: expected a number, got 'nan'"),
        (
            "positions=0.6/0.3",
            "--reported: positions: expected numbers with commas between them, got '0.6/0.3'",
        ),
    ],
)
def test_mistakes_are_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_reported(text)
