"""What a server speaks is found out, and its answers are read whatever shape they have."""

import math

import pytest

from lab.benchmarks import loopback
from lab.benchmarks.loopback import DropError
from spec_oracle.contracts.completion import Sampling
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.client.apis import SCORINGS, LlamaCpp, OpenAI, drafts_counted, read
from spec_oracle.servers.client.client import Client
from spec_oracle.servers.client.server import PROMPTS, connect
from spec_oracle.servers.contract import Ask, DraftCounts, RefusedError, ServerError
from tests.spec_oracle.servers.client.stand_in import END, InProcess, StandIn

VLLM = """
vllm:spec_decode_num_draft_tokens_total{engine="0"} 9
vllm:spec_decode_num_draft_tokens_total{engine="1"} 1
vllm:spec_decode_num_draft_tokens_created{engine="0"} 1e9
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 7
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4
"""
ROW = {3: math.log(0.5), 5: math.log(0.25)}


def connected(sampling=None, **options):
    asked = {name: options.pop(name) for name in ("api", "model", "prompts") if name in options}
    return connect(InProcess(StandIn(**options)), sampling or Sampling(), **asked)


@pytest.mark.parametrize(
    ("shape", "api", "prompt", "listed"),
    [("llama.cpp", LlamaCpp, tuple, 20), ("openai", OpenAI, tuple, 20), ("silent", OpenAI, str, 0)],
)
def test_the_api_of_a_server_is_detected(shape, api, prompt, listed):
    server = connected(shape=shape)
    assert isinstance(server.api, api)
    assert {type(text) for text in server.prompts} == {prompt}
    assert len(server.prompts) == len(PROMPTS)
    assert (server.listed, server.by_letters) == (listed, shape == "silent")


def test_fields_that_a_server_refuses_are_left_out():
    class Strict(StandIn):
        def respond(self, path, body, name=""):
            if body and ("min_p" in body or body.get("logprobs", 0) > 5):
                return 400, {"error": "unknown field"}
            return super().respond(path, body, name)

    server = connect(InProcess(Strict(shape="openai")), Sampling(top_k=3))
    assert (server.api.extra, server.listed) == ({}, 5)
    assert server.complete([Ask(server.prompts[0], 1, listed=5)])[0].logs


def test_a_server_that_refuses_everything_is_reported():
    class Closed(StandIn):
        def respond(self, path, body, name=""):
            return (400, {}) if path.endswith("completions") else super().respond(path, body, name)

    with pytest.raises(RefusedError, match="a request to /v1/completions is refused: HTTP 400"):
        connect(InProcess(Closed(shape="openai")), Sampling())


@pytest.mark.parametrize(("status", "option"), [(401, "--api-key-env"), (404, "--model")])
def test_a_server_that_refuses_to_name_its_models_is_quoted(status, option):
    class Shut(StandIn):
        def respond(self, path, body, name=""):
            return status, {}

    with pytest.raises(InvalidInputError, match=f"does not name its models: HTTP {status}; use {option}"):
        connect(InProcess(Shut()), Sampling(), api="openai")


def test_a_server_that_names_no_model_needs_one():
    with pytest.raises(InvalidInputError, match="--model"):
        connected(shape="llama.cpp", api="openai")
    assert connected(shape="openai", model="mine").api.model == "mine"


def test_prompts_may_be_text_or_ids():
    assert connected(prompts=["[3, 4]", "ab"]).prompts == ((3, 4), (0, 1))
    assert connected(shape="silent", prompts=["[not ids", "ab"]).prompts == ("[not ids", "ab")
    with pytest.raises(InvalidInputError, match="JSON list of token ids"):
        connected(prompts=["[1, -2]"])
    with pytest.raises(InvalidInputError, match="does not take and show token ids"):
        connected(shape="silent", prompts=["[1]", "a"])


def test_sampling_is_asked_for():
    sampling = Sampling(0.7, 5, 0.9, {"ignore_eos": True})
    for api, limit in ((LlamaCpp(), "n_predict"), (OpenAI("m"), "max_tokens")):
        body = api.request(Ask((1, 2), 4, seed=9, listed=3), sampling).body
        assert body[limit] == 4
        assert (body["temperature"], body["top_k"], body["top_p"], body["seed"]) == (0.7, 5, 0.9, 9)
        assert body["ignore_eos"] is True
        assert api.request(Ask((1,), 1, temperature=2.0), sampling).body["temperature"] == 2.0


@pytest.mark.parametrize(
    ("logprobs", "tokens"),
    [
        ({"tokens": ["token_id:3"], "top_logprobs": [{"token_id:3": ROW[3], "token_id:5": ROW[5]}]}, (3,)),
        ({"tokens": [3], "top_logprobs": [{"3": ROW[3], "5": ROW[5]}]}, (3,)),
    ],
)
def test_rows_are_read_in_every_shape(logprobs, tokens):
    answer = {"choices": [{"text": "x", "finish_reason": "length", "logprobs": logprobs}]}
    completion = read(OpenAI("m"), answer)
    assert completion.tokens == tokens
    assert completion.logs == pytest.approx(ROW)


def test_an_answer_without_text_is_empty_and_one_of_another_kind_is_shown():
    choice = {"text": None, "finish_reason": "stop"}
    assert read(OpenAI("m"), {"choices": [choice]}).text == ""
    with pytest.raises(ServerError, match=r"KeyError: 'choices'; it has error"):
        read(OpenAI("m"), {"error": {"message": "out of memory"}})


def test_counters_that_break_the_connection_are_no_reason_to_stop():
    class Drops(StandIn):
        def respond(self, path, body, name=""):
            if path == "/metrics":
                raise DropError
            return super().respond(path, body, name)

    with loopback.serving(Drops()) as url, Client(url) as client:
        server = connect(client, Sampling())
        assert server.drafts() == DraftCounts()
        assert server.complete([Ask(server.prompts[0], 1)])


@pytest.mark.parametrize("takes_lists", [True, False])
def test_prompts_are_sent_together_to_a_server_that_takes_lists(takes_lists):
    server = connected(takes_lists=takes_lists)
    asks = [Ask((1, 2, token), 1, listed=20) for token in range(4)]
    alone = server.complete(asks)
    for _ in range(2):
        before = server.client.requests
        together = server.together(asks)
        assert [one.logs for one in together] == [one.logs for one in alone]
    assert server.client.requests - before == (1 if takes_lists else len(asks))
    assert server.takes_lists == takes_lists


def test_requests_that_differ_in_more_than_prompts_are_not_sent_together():
    server = connected()
    asks = [Ask((1, 2), 1, listed=20, fields={"top_k": kept}) for kept in (1, 3)]
    assert [len(one.logs) for one in server.together(asks)] == [1, 3]


def test_letters_stand_for_tokens_where_no_ids_are_shown():
    """A token that is written "3" is not the token 3."""
    logprobs = {"tokens": ["3", "b"], "top_logprobs": [{"3": -0.5}, {"b": -0.1}]}
    answer = {"choices": [{"text": "3b", "finish_reason": "stop", "logprobs": logprobs}]}
    completion = read(OpenAI("m"), answer)
    assert (completion.tokens, completion.logs, completion.ended) == (("3", "b"), None, True)


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"text": 3}]}, [], {"choices": 1}])
def test_an_answer_of_another_api_is_reported(answer):
    with pytest.raises(ServerError, match="by the API openai"):
        read(OpenAI("m"), answer)


def test_ends_are_learnt_and_letters_stand_for_tokens_where_there_are_none():
    server = connected()
    server.complete([Ask((1, 2), 12)] * 40)  # 12 tokens of 6 % each: no end in 40 texts has chance 1e-13
    assert server.ends == {END}
    silent = connected(shape="silent")
    (completion,) = silent.complete([Ask("ab", 3)])
    assert completion.tokens == tuple(completion.text)


@pytest.mark.parametrize(("defect", "repeats"), [("", True), ("ignores-seeds", False), ("same-seed", True)])
def test_seeds_that_repeat_are_known(defect, repeats):
    assert connected(defect=defect).repeats_seeds is repeats


@pytest.mark.parametrize(
    ("page", "drafts"),
    [
        (
            "llamacpp:spec_decode_num_draft_tokens_total 9\nllamacpp:spec_decode_num_accepted_tokens_total 4",
            (9, 4),
        ),
        (VLLM, (10, 4)),
        (
            "trtllm_spec_decode_num_draft_tokens_total 9\ntrtllm_spec_decode_num_accepted_tokens_total 4",
            (9, 4),
        ),
        ('sglang:spec_accept_length{model_name="m"} 2.5', (None, 1.5)),
        ("# HELP nothing\nrequests_total 5", (None, None)),
    ],
)
def test_counters_of_drafts(page, drafts):
    assert drafts_counted(page) == DraftCounts(*drafts)


@pytest.mark.parametrize(("token", "listed"), [(3, {1, 2}), (1, {1, 2})])
def test_scores_list_no_token_only_because_it_came(token, listed):
    """Token 3 is as likely as token 2, as logits of bfloat16 often are, but not listed unless it came."""
    row = {str(one): {"logprob": log} for one, log in {token: -1.5, 1: -0.5, 2: -1.5}.items()}
    data = {"choices": [{"prompt_logprobs": [None, row]}]}
    assert SCORINGS[0].read(data, (7, token), 2)[1].keys() == listed
