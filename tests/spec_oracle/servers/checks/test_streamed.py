"""Streamed completions are the same as the ones that are not streamed, with as many tokens counted."""

import json
from functools import partial

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.servers.checks.streams import _streamable, streamed_alike
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.contract import Ask
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


class Streams(StandIn):
    """Sends a token an event; ``loses`` one of them, or counts more than there are."""

    def __init__(self, shape, fault="", *, shows_ids=True):
        super().__init__(shape=shape)
        self.fault, self.shows_ids = fault, shows_ids

    def respond(self, path, body, name=""):
        status, whole = super().respond(path, body, name)
        if not (body or {}).get("stream"):
            return status, whole
        data = whole if self.shape == "llama.cpp" else whole["choices"][0]
        tokens = data["tokens"] if self.shape == "llama.cpp" else data.get("token_ids") or [*data["text"]]
        events = [
            self.event(token) for place, token in enumerate(tokens) if (self.fault, place) != ("loses", 2)
        ]
        count = whole.get("usage", {}).get("completion_tokens", len(tokens)) + 5 * (self.fault == "counts")
        last = {"choices": [], "usage": {"completion_tokens": count}}
        if self.shape == "llama.cpp":
            last = {**whole, "tokens": [], "content": "", "tokens_predicted": count}
        lines = [f"data: {json.dumps(event)}\n\n" for event in (*events, last)]
        return 200, "".join([*lines, "data: [DONE]\n\n"])

    def event(self, token):
        text = token if isinstance(token, str) else self.written([token])
        if self.shape == "llama.cpp":
            return {"tokens": [token], "content": text}
        ids = {"token_ids": [token]} if self.shape == "openai" and self.shows_ids else {}
        return {"choices": [{"text": text, **ids}]}


@pytest.mark.parametrize("shape", ["llama.cpp", "openai"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("", "8 completions are the same"),
        ("loses", "tokens when it is streamed, 1"),
        ("counts", "is counted as"),
    ],
)
def test_streamed_completions_are_compared_with_others(shape, fault, words):
    server = server_of(Streams(shape, fault))
    greedy = [Ask(prompt, 12, temperature=0.0) for prompt in server.prompts]
    found = streamed_alike(server, [*greedy, *(Ask(server.prompts[0], 12, seed) for seed in range(6))])
    assert found.status is (Status.FAILED if fault else Status.PASSED)
    assert words in found.detail


class Chunks(Streams):
    """Sends three tokens an event, with what is listed at each.

    With "first" it lists at all what it lists at the first one, as SGLang did (#39260); with "last" it lists
    at the last one only.
    """

    def respond(self, path, body, name=""):
        status, whole = StandIn.respond(self, path, body, name)
        if not (body or {}).get("stream"):
            return status, whole
        choice = whole["choices"][0]
        events = []
        for start in range(0, len(choice["token_ids"]), 3):
            ids = choice["token_ids"][start : start + 3]
            event = {"text": self.written(ids), "token_ids": ids}
            if "logprobs" in choice:
                shown = {key: value[start : start + 3] for key, value in choice["logprobs"].items()}
                if self.fault == "first":
                    shown["top_logprobs"] = [shown["top_logprobs"][0]] * len(ids)
                if self.fault == "last":
                    shown = {key: value[-1:] for key, value in shown.items()}
                event["logprobs"] = shown
            events.append({"choices": [event]})
        return 200, "".join(f"data: {json.dumps(event)}\n\n" for event in events)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("", "12 completions are the same"),
        ("first", "lists other log-probabilities of token 2 when it is streamed"),
        ("last", "log-probabilities when it is streamed, 1"),
    ],
)
def test_log_probabilities_of_greedy_streams_are_compared(fault, words):
    server = server_of(Chunks("openai", fault), prompts=["bc", "def"])
    subject = ServerSubject("http://here", server, ServerPlan(streams_too=True))
    found = streamed_alike(server, _streamable(subject, np.random.default_rng(0)))
    assert found.status is (Status.FAILED if fault else Status.PASSED), found.detail
    assert words in found.detail


class Wordy(Streams):
    """Shows no ids; each token is written as a word."""

    def written(self, tokens):
        return "".join(3 * letter for letter in super().written(tokens))


@pytest.mark.parametrize("fault", ["", "loses", "counts"])
@pytest.mark.parametrize(
    "served",
    [partial(Streams, "openai", shows_ids=False), partial(Wordy, "silent")],
    ids=["whole only", "none"],
)
def test_streams_without_ids_are_compared_by_letters(served, fault):
    """Letters are neither ids nor counted as tokens."""
    server = server_of(served(fault=fault))
    found = streamed_alike(server, [Ask(server.prompts[0], 12, seed) for seed in range(6)])
    assert found.status is (Status.FAILED if fault else Status.PASSED), found.detail


def test_the_check_compares_them_where_it_is_asked_to():
    server = server_of(Streams("llama.cpp", "loses"), prompts=["bc"])
    found = result_of(
        "streams", ServerSubject("http://here", server, ServerPlan(streams_too=True)), Context()
    )
    assert found.status is Status.FAILED
    assert "tokens when it is streamed" in found.detail
    assert found.remarks.do.startswith("look at what a stream sends")


def test_completions_that_do_not_repeat_themselves_are_not_held_against_streaming():
    class Random(Streams):
        def stream(self, body):
            return super().stream({})

    server = server_of(Random("llama.cpp", ""))
    found = streamed_alike(server, [Ask(server.prompts[0], 12, seed) for seed in range(6)])
    assert found.status is not Status.FAILED
