"""Scores of whole texts: servers that list log-probabilities of a prompt's tokens, in one request each.

Engines differ in how that is asked for: vLLM has a field ``prompt_logprobs``, OpenAI's API ``echo`` together
with ``logprobs``, SGLang a native ``/generate`` with ``input_top_logprobs``. Whether a server answers, and as
it answers one-token requests, is for probing to say.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Final, TypeAlias

from spec_oracle.contracts.completion import Sampling, Token
from spec_oracle.servers.client.apis import OpenAI, as_id
from spec_oracle.servers.client.client import Request
from spec_oracle.servers.contract import Ask, ServerError

Listed: TypeAlias = dict[Token, float] | None
"""Log-probabilities listed at one token, None where there are none."""

Text: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Scoring:
    """One way to ask, for texts of token ids.

    ``body`` are the fields of a request with the text as its prompt, given the sampling and how many
    log-probabilities are listed; ``path`` is where it goes, "" for where completions are asked for. ``rows``
    reads what an answer lists at each token of the text.
    """

    name: str
    body: Callable[[Text, Sampling, int], Mapping[str, object]]
    rows: Callable[[object, Text], Iterable[dict[Token, float] | None]]
    path: str = ""

    def request(self, api: OpenAI, text: Text, sampling: Sampling, listed: int, *, is_probe: bool) -> Request:
        """Return the request for the scores of a text."""
        plain, body = api.request(Ask(text, 1), sampling), self.body(text, sampling, listed)
        if self.path:
            return Request(self.path, body, is_probe)
        return Request(plain.path, {**(plain.body or {}), **body}, is_probe)

    def read(self, data: object, text: Text, listed: int) -> list[Listed]:
        """Return what is listed at each token; raises `ServerError` for an answer without scores.

        The token of the text is listed beside the most probable ones even if it is none of them. It is left
        out then: what is listed must not depend on it.
        """
        try:
            rows = [*self.rows(data, text)]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ServerError(f"no scores of a prompt: {type(error).__name__}: {error}") from None
        if len(rows) > len(text):
            raise ServerError(f"{len(rows)} scores of a prompt of {len(text)} tokens")
        found = [
            row and {token: row[token] for token in nlargest(listed, row, key=row.__getitem__)}
            for row in rows
        ]
        return [*[None] * (len(text) - len(found)), *found]


def _of_prompt(data: Any, text: Text) -> Iterable[dict[Token, float] | None]:
    choice, _ = data["choices"][0], text
    for row in choice.get("prompt_logprobs") or data["prompt_logprobs"]:
        yield row and {int(token): float(entry["logprob"]) for token, entry in row.items()}


def _of_echo(data: Any, text: Text) -> Iterable[dict[Token, float] | None]:
    shown = data["choices"][0]["logprobs"]
    tokens, tops = shown["tokens"][: len(text)], shown["top_logprobs"][: len(text)]
    if tuple(map(as_id, tokens)) != text:
        raise ValueError("the prompt is not repeated")
    for row in tops:
        yield row and {as_id(token): float(log) for token, log in row.items()}


def _of_input(data: Any, text: Text) -> Iterable[dict[Token, float] | None]:
    del text
    for row in data["meta_info"]["input_top_logprobs"]:
        yield row and {token: float(log) for log, token, *_ in row}


def _native(text: Text, sampling: Sampling, listed: int) -> Mapping[str, object]:
    filters = {"temperature": sampling.temperature, "top_k": sampling.top_k or -1, "top_p": sampling.top_p}
    asked = {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": listed}
    return {"input_ids": list(text), "sampling_params": {**filters, "max_new_tokens": 1}, **asked}


SCORINGS: Final = (
    Scoring("prompt_logprobs", lambda _, __, listed: {"prompt_logprobs": listed}, _of_prompt),
    Scoring("echo", lambda _, __, listed: {"echo": True, "logprobs": listed}, _of_echo),
    Scoring("input_top_logprobs", _native, _of_input, "/generate"),
)
