"""Counts of drafts: those that calls cannot add up to are named, others are right whoever drafts."""

import re
from collections import Counter

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.servers.checks.length import counted_too_often
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.contract import DraftCounts
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of
from tests.strategies import at_night

TOKENS = 4


def counts(size, *, count=4000, prefills=False, is_cut=True, replays=False, seed=0):
    """Return pairs of drafted and accepted tokens of completions; ``size(rng)`` tokens are drafted a call.

    With ``replays`` one more counts as accepted after a draft that is accepted in part.
    """
    rng, found = np.random.default_rng(seed), Counter()
    for _ in range(count):
        place, drafted, accepted = int(prefills), 0, 0
        while place < TOKENS:
            here = min(size(rng), TOKENS - place - 1) if is_cut else size(rng)
            kept = int((np.cumsum(rng.random(here) > 0.6) == 0).sum())
            drafted, accepted = drafted + here, accepted + kept + (replays and 0 < kept < here)
            place += kept + 1
        found[drafted, accepted] += 1
    return found


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("prefills", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_right_counts_of_drafts_of_a_fixed_length_are_possible(size, prefills, is_cut):
    assert counted_too_often(counts(lambda _: size, prefills=prefills, is_cut=is_cut), TOKENS) == ""


@pytest.mark.parametrize("seed", [0, *at_night(*range(1, 5))])
@pytest.mark.parametrize(
    "size",
    [
        lambda rng: int(rng.integers(0, 4)),
        lambda rng: 3 if rng.random() < 0.98 else 1,
        lambda rng: int(rng.geometric(0.5)),
        lambda rng: 2,
    ],
    ids=["n-gram", "seldom fewer", "until a token is unlikely", "fixed"],
)
def test_right_counts_of_drafts_of_any_length_are_not_held_against_a_server(size, seed):
    assert counted_too_often(counts(size, seed=seed), TOKENS) == ""


@pytest.mark.parametrize(("size", "is_cut"), [(3, True), (5, True), (2, True)])
def test_accepted_tokens_that_are_counted_again_are_named(size, is_cut):
    found = counted_too_often(counts(lambda _: size, replays=True, is_cut=is_cut), TOKENS)
    assert "count more accepted drafts than their calls can have, such as" in found


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (DraftCounts(900, 901, 300), "counters report 901 accepted of 900 drafted tokens"),
        (DraftCounts(900, 100, 901), "counters report 901 calls with 900 drafted tokens"),
        (DraftCounts(900, 900, 900), ""),
        (DraftCounts(0, 0, 0), ""),
        (DraftCounts(900, 100), ""),
        (DraftCounts(None, 1.2), ""),
        (DraftCounts(), ""),
    ],
)
def test_counters_of_a_server_that_no_length_of_drafts_explains_fail(counted, words):
    server = server_of(StandIn(shape="uncounted"), top_k=3, prompts=["bc"])
    server.drafts = lambda: counted if server.client.stand_in.calls["/v1/completions"] > 30 else nothing
    nothing = DraftCounts(*(None if one is None else 0 for one in vars(counted).values()))
    found = result_of("length", ServerSubject("here", server), Context())
    assert found.status is (Status.FAILED if words else Status.PASSED), found.detail
    assert words in found.detail


@pytest.mark.parametrize(
    ("defect", "do"),
    [("impossible-counts", "counts drafted and accepted tokens"), ("misses-stops", "ends text, ids")],
)
def test_a_failure_says_what_of_the_server_to_look_at(defect, do):
    server = server_of(StandIn(defect=defect), top_k=3, prompts=["bc"])
    assert do in result_of("length", ServerSubject("here", server), Context()).remarks.do


class EndsAtTheFirstListed(StandIn):
    """Looks for stop strings after each block, and ends it at the first of the list that is in it.

    So do vllm#49391 and, without drafts, dynamo#14848: a stop string that comes earlier stays in the text.
    """

    def text(self, prompt, count, body):
        tokens, drafted, accepted = super().text(prompt, count, body)
        text = self.written(tokens)
        stop = next((one for one in body.get("stop", ()) if one in text), None)
        return tokens if stop is None else tokens[: text.index(stop) + len(stop)], drafted, accepted


@pytest.mark.parametrize("shape", ["openai", "llama.cpp"])
@pytest.mark.parametrize("defect", ["stops-text-only", ""])
def test_the_stop_string_that_comes_first_ends_a_completion(shape, defect):
    server = server_of(EndsAtTheFirstListed(shape=shape, defect=defect), top_k=3, prompts=["bc"])
    found = result_of("length", ServerSubject("here", server), Context())
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail
    assert not defect or re.search(
        "under the stop strings '..', '..' (goes on|has token ids) behind", found.detail
    )


class RefusesGreedy(StandIn):
    """Asks for a temperature above 0, as text-generation-inference does."""

    def respond(self, path, body, name=""):
        if body and body.get("temperature") == 0:
            return 422, {"error": "`temperature` must be strictly positive"}
        return super().respond(path, body, name)


def test_a_server_without_greedy_requests_is_judged_under_one_stop_string():
    server = server_of(RefusesGreedy(shape="openai"), top_k=3, prompts=["bc"])
    found = result_of("length", ServerSubject("here", server), Context())
    assert found.status is Status.PASSED
    assert "24 completions under stop strings" in found.detail


class AlwaysStops(StandIn):
    """Reports of all completions that the model ended them, as mlx-vlm's server did (#1215)."""

    def answer(self, *arguments):
        data = super().answer(*arguments)
        data["choices"][0]["finish_reason"] = "stop"
        return data


def test_a_wrong_reason_of_the_end_is_no_wrong_distribution():
    server = server_of(AlwaysStops(shape="openai"), top_k=3, prompts=["bc"])
    subject = ServerSubject("here", server, ServerPlan(detect=0.1))
    found = result_of("joint", subject, Context())
    assert found.status is Status.PASSED, found.detail
    found = result_of("length", subject, Context())
    assert found.status is Status.FAILED
    assert "tokens that were asked for end for 'stop'" in found.detail


class CutsBlocks(StandIn):
    """Counts a whole block before it sends it: completions end early (ik_llama.cpp#2358)."""

    def text(self, prompt, count, body):
        tokens, drafted, accepted = super().text(prompt, count, body)
        return tokens[: len(tokens) - (accepted == 1)], drafted, accepted


def test_completions_that_are_cut_short_say_where_to_look():
    server = server_of(CutsBlocks(), top_k=3, prompts=["bc"])
    found = result_of("joint", ServerSubject("here", server, ServerPlan(detect=0.1)), Context())
    assert found.status is Status.FAILED
    assert "stops after 3 of 4 tokens" in found.detail
    assert found.remarks.do.startswith("look at where the server ends")


class CountsBeyondLimit(StandIn):
    """Counts accepted drafts that the limit cuts off, as mlx-vlm documents of its server (#2324)."""

    def answer(self, prompt, tokens, drafted, accepted, body):
        return super().answer(prompt, tokens, 2 * len(tokens), 2 * len(tokens), body)


def test_accepted_tokens_beyond_the_limit_leave_a_way_out():
    server = server_of(CountsBeyondLimit(shape="openai"), top_k=3, prompts=["bc"])
    found = result_of("length", ServerSubject("here", server), Context())
    assert found.status is Status.FAILED
    assert "--skip length" in found.remarks.do


class Confident(StandIn):
    """Drafts on while the drafter is sure, as llama.cpp with --draft-p-min: accepted drafts are longer."""

    def answer(self, prompt, tokens, drafted, accepted, body):
        calls = (1, 0) if accepted < 2 else (2, 2)
        return super().answer(prompt, tokens, *(calls if len(tokens) > 1 else (0, 0)), body)


def test_longer_drafts_where_they_are_accepted_leave_a_way_out():
    server = server_of(Confident(), top_k=3, prompts=["bc"])
    subject = ServerSubject("here", server)
    subject.completions.sample(400)
    found = result_of("length", subject, Context())
    assert found.status is Status.INCONCLUSIVE, found.detail
    assert "--skip length" in found.remarks.do
