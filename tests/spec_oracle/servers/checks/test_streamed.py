"""Streamed completions are the same as the ones that are not streamed, with as many tokens counted."""

import json

import pytest

from spec_oracle.audit import Status
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.streams import streamed_alike
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import Ask
from tests.spec_oracle.servers.client.stand_in import InProcess, StandIn


class Streams(StandIn):
    """Sends a token an event; ``loses`` one of them, or counts more than there are."""

    def __init__(self, shape, fault=""):
        super().__init__(shape=shape)
        self.fault = fault

    def respond(self, path, body, name=""):
        status, whole = super().respond(path, body, name)
        if not (body or {}).get("stream"):
            return status, whole
        data = whole if self.shape == "llama.cpp" else whole["choices"][0]
        tokens = data["tokens" if self.shape == "llama.cpp" else "token_ids"]
        events = [
            self.event(token) for place, token in enumerate(tokens) if (self.fault, place) != ("loses", 2)
        ]
        count = len(tokens) + 5 * (self.fault == "counts")
        last = {"choices": [], "usage": {"completion_tokens": count}}
        if self.shape == "llama.cpp":
            last = {**whole, "tokens": [], "content": "", "tokens_predicted": count}
        lines = [f"data: {json.dumps(event)}\n\n" for event in (*events, last)]
        return 200, "".join([*lines, "data: [DONE]\n\n"])

    def event(self, token):
        text = self.written([token])
        if self.shape == "llama.cpp":
            return {"tokens": [token], "content": text}
        return {"choices": [{"token_ids": [token], "text": text}]}


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
    server = connect(InProcess(Streams(shape, fault)), Sampling(), prompts=["bc", "def"])
    greedy = [Ask(prompt, 12, temperature=0.0) for prompt in server.prompts]
    found = streamed_alike(server, [*greedy, *(Ask(server.prompts[0], 12, seed) for seed in range(6))])
    assert found.status is (Status.FAILED if fault else Status.PASSED)
    assert words in found.detail


def test_completions_that_do_not_repeat_themselves_are_not_held_against_streaming():
    class Random(Streams):
        def stream(self, body):
            return super().stream({})

    server = connect(InProcess(Random("llama.cpp", "")), Sampling(), prompts=["bc", "def"])
    found = streamed_alike(server, [Ask(server.prompts[0], 12, seed) for seed in range(6)])
    assert found.status is not Status.FAILED
