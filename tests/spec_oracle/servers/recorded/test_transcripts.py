"""Recorded completions: what a line says of the server that it came from."""

import json

import numpy as np
import pytest

from spec_oracle.audit import SubjectVerdict
from spec_oracle.audit.results import passed
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.recorded import checks
from spec_oracle.servers.recorded.checks import Transcripts
from spec_oracle.servers.recorded.transcripts import line_of, read_all
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


def test_a_record_says_how_much_the_server_differs():
    """What one request rules out, another one may let through there: that is no proof offline either."""
    found = Distributions(server_of(StandIn(), top_k=3, prompts=["bc"]))
    found.noise, found.differ = 0.0, [0.02] * 64
    found.fetch([(0, ())])
    (line,) = read_all([line_of((0, (1, 2)), found, None)])
    assert 0.005 < line.noise < 0.02
    assert Transcripts([line]).judged.distributions.is_noisy


def test_a_model_that_may_be_another_one_leaves_the_verdict_open(monkeypatch):
    """Its distributions differ by 0.04 on average for certain, but not for certain by more than 0.041."""
    found = Distributions(server_of(StandIn(), top_k=3, prompts=["bc"]))
    found.fetch([(0, ())])
    read = Transcripts(read_all([line_of((0, (1, 2)), found, None)]), rows=lambda *_: [])
    monkeypatch.setattr(checks, "result_of_tokens", lambda *_, **__: passed("as expected"))
    read._distances.distances += [0.03, 0.05] * 100
    assert read.report("f", 1e-6, 0.041).verdict is SubjectVerdict.INCONCLUSIVE
    assert read.report("f", 1e-6, 0.05).verdict is SubjectVerdict.LOSSLESS


@pytest.mark.parametrize("known", [24, 224], ids=["followed", "whole"])
def test_first_completions_that_mislead_do_not_make_right_ones_wrong(known):
    """Few tokens do not tell rows after a temperature from rows before it: here they are as if before it.

    Of 80 right files of short completions 7 were called lossy for that reason.
    """
    rng, p = np.random.default_rng(0), np.array([0.6, 0.25, 0.15])
    tokens = rng.choice(3, (224, 4), p=p)
    tokens[:24] = rng.choice(3, (24, 4), p=p**2 / (p**2).sum())
    row = dict(enumerate(np.log(p).tolist()))
    line = {"sampling": {"temperature": 0.5}, "rows": [row] * 4}
    lines = ({**line, "prompt": [number], "tokens": one} for number, one in enumerate(tokens.tolist()))
    some = read_all(map(json.dumps, lines))
    read = Transcripts(some[:known])
    for one in some:
        read.add(one)
    (tokens, *_) = read.report("f", 1e-6, 0.3).checks
    assert not read.is_decided(1e-6)
    assert "contradict" not in tokens.detail


@pytest.mark.parametrize("length", [2, 4])
def test_short_completions_are_enough_where_there_are_many(length):
    """None of their tokens has another one six tokens behind it, however many completions there are."""
    rng, p = np.random.default_rng(0), np.array([0.4, 0.3, 0.2, 0.1])
    line = {"rows": [dict(enumerate(np.log(p).tolist()))] * length}
    tokens = rng.choice(4, (600, length), p=p).tolist()
    lines = ({**line, "prompt": [number], "tokens": one} for number, one in enumerate(tokens))
    some = read_all(map(json.dumps, lines))
    read = Transcripts(some)
    for one in some:
        read.add(one)
    assert read.report("f", 1e-6, 0.3).verdict is SubjectVerdict.LOSSLESS
