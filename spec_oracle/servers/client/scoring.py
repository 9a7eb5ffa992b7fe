"""Scores of whole texts: servers that list log-probabilities of a prompt's tokens, in one request each.

vLLM has a field ``prompt_logprobs`` for that, OpenAI's API ``echo`` together with ``logprobs``. Whether a
server answers, and as it answers one-token requests, is for probing to say.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, TypeAlias

from spec_oracle.contracts.completion import Sampling, Token
from spec_oracle.servers.client.apis import OpenAI, as_id
from spec_oracle.servers.client.client import Request
from spec_oracle.servers.contract import Ask, Json, ServerError

Listed: TypeAlias = dict[Token, float] | None
"""Log-probabilities listed at one token, None where there are none."""

Text: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Scoring:
    """One way to ask for texts of token ids.

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
