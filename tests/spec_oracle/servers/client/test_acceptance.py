"""The acceptance log of llama.cpp's server: counts of a stream, recomputed drafts, the target's own rows."""

import json
import math
from contextlib import contextmanager
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest

from spec_oracle.acceptance import acceptance
from spec_oracle.acceptance.log import read_calls
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.client.acceptance import record_calls
from spec_oracle.servers.client.client import Client, Reply
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import ServerError
from tests.spec_oracle.acceptance.logs import with_counts

ROW = {0: 0.5, 1: 0.3, 2: 0.2}


class Scripted:
    """A server that emits a script, with counts of drafts, and has one row for all contexts."""

    prompts = ((7, 8),)
    sampling = None

    def __init__(self, script, row):
        self.script, self.row = script, row
        self.client = self
        self.api = SimpleNamespace(request=lambda ask, _: ask)

    def ask(self, asks):
        assert asks[0].fields == {"stream": True, "timings_per_token": True}
        parts = [
            {"tokens": tokens, "timings": {"draft_n": drafted, "draft_n_accepted": accepted}}
            for tokens, drafted, accepted in self.script
        ]
        return [Reply("".join(f"data: {json.dumps(part)}\n\n" for part in parts))]

    def complete(self, asks):
        return [SimpleNamespace(logs={token: math.log(p) for token, p in self.row.items()}) for _ in asks]


def record(script, drafter, target=ROW):
    log = StringIO()
    count = record_calls(log, Scripted(script, target), Scripted([], drafter), tokens=9, seeds=[1])
    calls = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(calls) == count
    return calls


SCRIPT = [([2], 0, 0), ([1], 3, 1), ([0], 3, 1), ([0], 5, 1), ([1], 6, 2), ([2], 6, 2), ([], 6, 2)]
"""A token without drafts; then of 3 drafted tokens 1, of 2 none, and of 1 one are accepted."""


def test_calls_are_where_the_count_of_drafted_tokens_grows():
    calls = record(SCRIPT, {1: 0.9, 0: 0.1})
    assert [(len(one["drafted"]), one["accepted"]) for one in calls] == [(3, 1), (2, 0), (1, 1)]
    assert calls[0] == {"prompt": 0, "drafted": [1] * 3, "accepted": 1, "p": [0.3] * 3, "q": [1] * 3}


def test_a_drafted_token_that_the_target_filters_has_probability_0_and_an_unlisted_one_is_refused():
    none_accepted = [([2], 0, 0), ([1], 2, 0)]
    assert record(none_accepted, {4: 1.0})[0]["p"] == [0, 0]
    with pytest.raises(ServerError, match="token 4 was drafted, and is not among the 2 likeliest tokens"):
        record(none_accepted, {4: 1.0}, {0: 0.5, 1: 0.3})


@pytest.mark.parametrize("drafter", [{0: 1.0}, {2: 1.0}])
def test_emitted_tokens_that_contradict_the_drafts_are_an_error(drafter):
    """The first draft that is accepted is not 0; nor is it 2."""
    with pytest.raises(ServerError, match="are drafts sampled, or are these other weights?"):
        record(SCRIPT, drafter)


def test_a_refused_token_that_is_emitted_is_an_error():
    with pytest.raises(ServerError, match="are drafts sampled"):
        record([([2], 0, 0), ([1], 2, 0)], {1: 1.0})


@pytest.fixture(scope="module")
def models_of_48_tokens(tmp_path_factory):
    from lab.benchmarks.llama_cpp import models

    folder = tmp_path_factory.mktemp("models")
    models(folder)
    return folder


@contextmanager
def serving_pair(mode, folder):
    """Yield a server that speculates in a mode, and one of its draft model."""
    from lab.benchmarks.llama_cpp import serving

    target, draft = folder / "target.gguf", folder / "draft.gguf"
    prompts = ["[5, 6, 7]", "[9, 4]", "[30, 31, 32, 33]"]
    with (
        serving(mode, target, draft) as url,
        serving("no speculation", draft, draft) as draft_url,
        Client(url) as client,
        Client(draft_url) as other,
    ):
        yield (
            connect(client, Sampling(top_k=3, fields={"ignore_eos": True}), prompts=prompts),
            connect(other, Sampling(), prompts=prompts),
        )


@pytest.mark.servers
def test_counts_of_llama_cpp_agree_with_sample_and_match_and_half_of_them_do_not(models_of_48_tokens):
    rule, log = "sample_and_match", StringIO()
    with serving_pair("draft model", models_of_48_tokens) as (target, draft):
        count = record_calls(log, target, draft, tokens=40, seeds=range(5))
    calls = read_calls(log.getvalue().splitlines())
    assert len(calls.lengths) == count > 300
    found = acceptance(calls, rule=rule)
    assert not found.disagrees
    assert found.accepted > 30
    halved = acceptance(with_counts(calls, np.random.default_rng(1), rule, factor=0.5), rule=rule)
    assert halved.disagrees
    assert abs(halved.factor[0] - 0.5) < 0.2


@pytest.mark.servers
def test_sampled_drafts_of_llama_cpp_are_refused(models_of_48_tokens):
    with (
        serving_pair("draft model, probabilistic", models_of_48_tokens) as (target, draft),
        pytest.raises(ServerError, match="are drafts sampled"),
    ):
        record_calls(StringIO(), target, draft, tokens=40, seeds=range(5))
