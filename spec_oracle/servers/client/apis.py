"""The two APIs: what a completion request looks like, and what its answer and the counters of drafts say.

`LlamaCpp` is the native API of llama.cpp's server, which shows probabilities as sampled and counts drafts in
every answer. `OpenAI` is the completion API of everything else (vLLM, SGLang, TensorRT-LLM, TGI, mlx-lm,
llama.cpp too); engines differ in what they add to it, so fields beyond the standard are read where they are.

Some servers score a whole text: they list log-probabilities of a prompt's tokens in one request. vLLM has a
field ``prompt_logprobs`` for that, OpenAI's API ``echo`` together with ``logprobs``. Whether a server scores,
and as it answers one-token requests, is for probing to say.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final, TypeAlias

from spec_oracle.audit.logprobs import likeliest
from spec_oracle.contracts.completion import Completion, Reported, Sampling, Token
from spec_oracle.servers.client.client import Request
from spec_oracle.servers.contract import Ask, DraftCounts, Json, ServerError

_NEUTRAL: Mapping[str, object] = {"min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Penalties of generated tokens, which requests for one token do not show, and a filter: of neither any."""


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp's own ``/completion``."""

    name: str = "llama.cpp"

    def request(self, ask: Ask, sampling: Sampling) -> Request:
        """Return the request; filters that were not asked for are switched off."""
        body = _asked(ask, sampling)
        body |= {"n_predict": ask.tokens, "top_k": sampling.top_k, **_NEUTRAL, "return_tokens": True}
        if ask.listed:
            body |= {"n_probs": ask.listed, "post_sampling_probs": True}
        return Request("/completion", {**body, **_added(ask, sampling)})

    def completion(self, data: Json) -> Completion:
        """Return what an answer says."""
        timings, finish = data.get("timings") or {}, data.get("stop_type", "")
        reported = [
            Reported(
                token=entry["id"],
                log=_log(entry),
                logs={
                    listed["id"]: _log(listed)
                    for listed in entry.get("top_probs") or entry.get("top_logprobs") or ()
                    if listed.get("prob") != 0
                },
            )
            for entry in data.get("completion_probabilities") or ()
        ]
        return Completion(
            tokens=tuple(data["tokens"]),
            text=data.get("content", ""),
            ended=finish == "eos",
            reported=tuple(reported),
            drafted=timings.get("draft_n", 0),
            accepted=timings.get("draft_n_accepted", 0),
            finish="length" if finish == "limit" else finish,
            counted=data.get("tokens_predicted"),
        )

    def tokenize(self, text: str) -> Request:
        """Return the request for the token ids of a prompt."""
        return Request("/tokenize", {"content": text, "add_special": True})

    def detokenize(self, tokens: Sequence[Token]) -> Request:
        """Return the request for the text of token ids; the answer has it as ``content``."""
        return Request("/detokenize", {"tokens": list(tokens)})


def _asked(ask: Ask, sampling: Sampling) -> dict[str, object]:
    """Return the fields that both APIs have."""
    prompt = list(ask.prompt) if isinstance(ask.prompt, tuple) else ask.prompt
    temperature = sampling.temperature if ask.temperature is None else ask.temperature
    seed = {} if ask.seed is None else {"seed": ask.seed}
    return {"prompt": prompt, "temperature": temperature, "top_p": sampling.top_p, **seed}


def _added(ask: Ask, sampling: Sampling) -> dict[str, object]:
    """Return the fields of all requests and of this one; its own temperature is no field of all others."""
    own = {} if ask.temperature is None else {"temperature": ask.temperature}
    return {**sampling.fields, **own, **ask.fields}


_IDS = ("return_token_ids", "return_tokens_as_token_ids")
NEUTRAL: Mapping[str, object] = {"top_k": -1, **_NEUTRAL, **dict.fromkeys(_IDS, True)}
"""No filters and penalties of the server's own, and ids. Left out where a server refuses them."""


@dataclass(frozen=True)
class OpenAI:
    """The completion API of OpenAI; ``extra`` fields are sent first."""

    model: str
    extra: Mapping[str, object] = field(default_factory=lambda: NEUTRAL)
    name: str = "openai"

    def request(self, ask: Ask, sampling: Sampling) -> Request:
        """Return the request."""
        body = {**self.extra, **_asked(ask, sampling), "model": self.model, "max_tokens": ask.tokens}
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if ask.listed:
            body["logprobs"] = ask.listed
        return Request("/v1/completions", {**body, **_added(ask, sampling)})

    def completion(self, data: Json) -> Completion:
        """Return what an answer says."""
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = choice["text"] or ""  # null, of some servers, where nothing was said
        shown = choice.get("logprobs") or {}
        ids = _ids(shown)
        shows_ids = len(ids) == len(shown.get("tokens") or ())
        tokens = choice.get("token_ids") or ids
        tops, logs = shown.get("top_logprobs") or (), shown.get("token_logprobs") or ()
        reported = [
            Reported(
                token=token,
                log=None if log is None else float(log),
                logs={as_id(one): float(of) for one, of in (top or {}).items()},
            )
            for token, top, log in zip_longest(ids, tops if shows_ids else (), logs if shows_ids else ())
        ]
        drafted, accepted = _drafts(data.get("timings"), usage.get("completion_tokens_details") or {})
        return Completion(
            tokens=tuple(tokens or text),
            text=text,
            ended=choice.get("finish_reason") == "stop",
            reported=tuple(reported),
            drafted=drafted,
            accepted=accepted,
            finish=choice.get("finish_reason") or "",
            counted=usage.get("completion_tokens"),
        )

    def tokenize(self, text: str) -> Request:
        """Return the request for the token ids of a prompt, as vLLM and SGLang take it."""
        return Request("/tokenize", {"model": self.model, "prompt": text})

    def detokenize(self, tokens: Sequence[Token]) -> Request:
        """Return the request for the text of token ids; vLLM's answer has it as ``prompt``."""
        return Request("/detokenize", {"model": self.model, "tokens": list(tokens)})


Api: TypeAlias = LlamaCpp | OpenAI


def read(api: Api, data: Json) -> Completion:
    """Return what an answer says; raises `ServerError` for one that is not of this API."""
    try:
        return api.completion(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        why = f"{type(error).__name__}: {error}"
        has = f"; it has {', '.join(map(str, data))}" if isinstance(data, Mapping) else ""
        raise ServerError(f"cannot read an answer by the API {api.name}: {why}{has}") from None


def streamed(api: Api, text: str) -> Completion:
    """Return what the server-sent events of a stream say together; raises `ServerError` for none.

    It has no tokens where the events show no ids. Usage may come in an event without a choice.
    """
    lines = (line.removeprefix("data:").strip() for line in text.split("\n") if line.startswith("data:"))
    try:
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        parts = [read(api, {**one, "choices": one.get("choices") or [{"text": ""}]}) for one in events]
        ids = (token for part in parts for token in part.tokens if isinstance(token, int))
        counted = next((part.counted for part in parts[::-1] if part.counted is not None), None)
        ended, words = any(part.ended for part in parts), "".join(part.text for part in parts)
        reported = tuple(one for part in parts for one in part.reported)
        whole = replace(parts[-1], tokens=tuple(ids), text=words, ended=ended, counted=counted)
        return replace(whole, reported=reported)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ServerError(f"cannot read a stream by the API {api.name}: {type(error).__name__}") from None


def _log(entry: Mapping[str, Json]) -> float:
    """Return the log-probability that llama.cpp reports as one, or as a probability."""
    if "logprob" in entry:
        return float(entry["logprob"])
    return math.log(entry["prob"]) if entry["prob"] else -math.inf


def _drafts(timings: Json, details: Json) -> tuple[int | None, int | None]:
    """Return drafted and accepted tokens, by llama.cpp's ``timings`` or OpenAI's usage, None without."""
    if timings:
        return timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    accepted, refused = (details.get(f"{kind}_prediction_tokens") for kind in ("accepted", "rejected"))
    return None if None in (accepted, refused) else accepted + refused, accepted


def _ids(shown: Mapping[str, Json]) -> list[int]:
    """Return the ids of the tokens that have log-probabilities; none if they are shown as other text."""
    listed = shown.get("tokens") or ()
    shows_ids = all(isinstance(token, int) or token.startswith("token_id:") for token in listed)
    return [as_id(token) for token in listed] if shows_ids else []


def as_id(token: int | str) -> int:
    """Return the id that vLLM writes as text and mlx-lm as a number; raises `ValueError` for other text."""
    return int(token.removeprefix("token_id:")) if isinstance(token, str) else token


_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(\{[^}]*\})?\s+(?P<value>\S+)", re.MULTILINE)


def drafts_counted(text: str) -> DraftCounts:
    r"""Return the drafts that a ``/metrics`` page for Prometheus counts, added up over models and ranks.

    vLLM, llama.cpp, LMDeploy and TensorRT-LLM count tokens; SGLang shows the mean number of tokens per call,
    the last one included.

    >>> drafts_counted('vllm:spec_decode_num_draft_tokens_total{engine="0"} 9.0\n'
    ...                    'vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4.0')
    DraftCounts(drafted=9.0, accepted=4.0, calls=None)
    """
    samples = [(found["name"], float(found["value"])) for found in _SAMPLE.finditer(text)]

    def values(ending: str) -> list[float]:
        return [value for name, value in samples if name.removesuffix("_total").endswith(ending)]

    drafted, accepted = values("spec_decode_num_draft_tokens"), values("spec_decode_num_accepted_tokens")
    if drafted and accepted:
        calls = values("spec_decode_num_drafts")
        return DraftCounts(sum(drafted), sum(accepted), sum(calls) if calls else None)
    per_call = values(":spec_accept_length")
    return DraftCounts(accepted=max(max(per_call) - 1, 0.0)) if per_call else DraftCounts()


Listed: TypeAlias = dict[Token, float] | None
"""Log-probabilities listed at one token, None where there are none."""

Text: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Scoring:
    """One way to ask for the log-probabilities of a whole text of token ids.

    ``fields`` are those of a request with the text as its prompt, given how many log-probabilities are
    listed; ``rows`` reads what an answer lists at each token of the text.
    """

    name: str
    fields: Callable[[int], Mapping[str, object]]
    rows: Callable[[Json, Text], Iterable[Listed]]

    def request(self, api: OpenAI, text: Text, sampling: Sampling, listed: int, *, is_probe: bool) -> Request:
        """Return the request for the scores of a text."""
        plain = api.request(Ask(text, 1, fields=self.fields(listed)), sampling)
        return Request(plain.path, plain.body, is_probe)

    def read(self, data: Json, text: Text, listed: int) -> list[Listed]:
        """Return the likeliest tokens at each token; raises `ServerError` if there are no scores."""
        try:
            rows = [*self.rows(data, text)]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ServerError(f"no scores of a prompt: {type(error).__name__}: {error}") from None
        if len(rows) > len(text):
            raise ServerError(f"{len(rows)} scores of a prompt of {len(text)} tokens")
        known = text[len(text) - len(rows) :]
        found = [row and likeliest(row, listed, token) for row, token in zip(rows, known, strict=True)]
        return [*[None] * (len(text) - len(found)), *found]


def _of_prompt(data: Json, _: Text) -> Iterable[Listed]:
    for row in data["choices"][0].get("prompt_logprobs") or data["prompt_logprobs"]:
        yield row and {int(token): float(entry["logprob"]) for token, entry in row.items()}


def _of_echo(data: Json, text: Text) -> Iterable[Listed]:
    shown = data["choices"][0]["logprobs"]
    if tuple(map(as_id, shown["tokens"][: len(text)])) != text:
        raise ValueError("the prompt is not repeated")
    for row in shown["top_logprobs"][: len(text)]:
        yield row and {as_id(token): float(log) for token, log in row.items()}


SCORINGS: Final = (
    Scoring("prompt_logprobs", lambda listed: {"prompt_logprobs": listed}, _of_prompt),
    Scoring("echo", lambda listed: {"echo": True, "logprobs": listed}, _of_echo),
)
