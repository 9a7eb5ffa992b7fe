"""A running server: what it was found to speak, and completions of the audit's prompts by it."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Final, TypeAlias

from spec_oracle.contracts.completion import Completion, Prompt, Sampling, Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.client.apis import (
    Api,
    Listed,
    LlamaCpp,
    OpenAI,
    Scoring,
    Text,
    drafts_counted,
    read,
    streamed,
)
from spec_oracle.servers.client.client import Client, Request
from spec_oracle.servers.contract import Ask, DraftCounts, OutOfTimeError, RefusedError, ServerError

_FLIPS = (
    "tails, heads, heads, tails, heads, tails, tails, tails, heads, heads, tails, heads, tails, heads, heads,"
)

PROMPTS: Final = (
    "The first thing that I noticed was the",
    "Here are three words that nobody expects:",
    f"Coin flips: {_FLIPS} {_FLIPS}",
)
"""Prompts with many likely continuations; the last repeats itself, for drafters that look up n-grams."""

LISTINGS = (20, 10, 5)
"""How many log-probabilities are asked for, in turn, until the server agrees."""

COUNTERS: Final = ("/metrics", "/prometheus/metrics")
"""Pages for Prometheus; the second one is that of TensorRT-LLM, whose first one is none."""

_SEEDS = range(1001, 1009)

_NO_KEY = ("HTTP 401", "HTTP 403")

Progress: TypeAlias = Callable[..., None]
"""(what, done, of how many, now=): ``now`` says how fast it goes, and how much time is left."""


@dataclass
class Server:
    """A server, and the fields of all requests to it.

    ``prompts`` are token ids where the server takes and shows ids; else text, and with ``by_letters`` the
    letters of a completion stand for its tokens. ``listed`` log-probabilities are shown of a token, 0 for a
    server that shows none. ``progress`` is called with how far a check is.
    """

    client: Client
    api: Api
    sampling: Sampling
    prompts: tuple[Prompt, ...]
    listed: int
    by_letters: bool = False
    progress: Progress = lambda *_, **__: None
    ends: set[Token] = field(default_factory=set)
    """Tokens that were seen to end a completion."""
    takes_lists: bool = False
    """Whether one request may have several prompts, as far as is known."""
    hides_ends: bool = False
    """Whether a request for one token was seen to end without any: a token that ends a text is not shown."""
    names_limits: bool = False
    """Whether a completion was seen whose end it reports as that of the limit."""

    def complete(self, asks: Sequence[Ask]) -> list[Completion]:
        """Return all of `stream`."""
        return list(self.stream(asks))

    def stream(self, asks: Sequence[Ask]) -> Iterator[Completion]:
        """Yield the completions, in order; raises `ServerError` after the completions that came before it."""
        answers = self.client.answers([self.api.request(ask, self.sampling) for ask in asks])
        for ask, answer in zip(asks, answers, strict=True):
            found = read(self.api, answer.data)
            yield self._known(ask, replace(found, is_doubtful=True) if answer.is_doubtful else found)

    def streamed(self, ask: Ask) -> Completion:
        """Return a completion that is streamed; raises `ServerError`."""
        fields = {**ask.fields, "stream": True}
        if isinstance(self.api, OpenAI):
            fields["stream_options"] = {"include_usage": True}
        request = self.api.request(replace(ask, fields=fields), self.sampling)
        (answer,) = self.client.ask([request])
        return self._known(ask, streamed(self.api, answer.data))

    def together(self, asks: Sequence[Ask]) -> list[Completion]:
        """Return the completions, of prompts of token ids; raises `ServerError`.

        Where the server takes a list of prompts, and the asks differ in nothing else, it computes them in one
        batch, up to twice as fast.
        """
        alike = all(replace(ask, prompt=asks[0].prompt) == asks[0] for ask in asks)
        if self.takes_lists and alike and len(asks) > 1:
            one = self.api.request(asks[0], self.sampling)
            body = {**(one.body or {}), "prompt": [list(ask.prompt) for ask in asks]}
            try:
                (answer,) = self.client.ask([Request(one.path, body, is_probe=True)])
                pairs = zip(asks, answer.data, strict=True)
                return [self._known(ask, read(self.api, data)) for ask, data in pairs]
            except OutOfTimeError:
                raise
            except (ServerError, TypeError, ValueError):
                self.takes_lists = False
        return self.complete(asks)

    def _known(self, ask: Ask, found: Completion) -> Completion:
        """Return a completion with its tokens; know the token that ended it."""
        self.names_limits = self.names_limits or found.finish == "length"
        if self.by_letters:
            found = replace(found, tokens=tuple(found.text))
        elif (
            found.ended
            and found.tokens
            and (self.names_limits or len(found.tokens) < ask.tokens)  # else it may say so of any token
            and "stop" not in {**self.sampling.fields, **ask.fields}  # that may have ended it
        ):
            self.ends.add(found.tokens[-1])
        return found

    def text(self, tokens: Sequence[Token]) -> str | None:
        """Return the text of token ids; None if the server does not return it."""
        try:
            data = self.client.ask([self.api.detokenize(tokens)])[0].data
        except RefusedError:
            return None
        return next((data[key] for key in ("content", "prompt", "text") if key in data), None)

    def score(
        self, texts: Sequence[Text], scoring: Scoring, *, is_probe: bool = False
    ) -> Iterator[list[Listed]]:
        """Yield the log-probabilities listed at each token of texts, in order; raises `ServerError`."""
        if not isinstance(self.api, OpenAI):
            raise RefusedError("this API scores no prompts")
        asked = [
            scoring.request(self.api, text, self.sampling, self.listed, is_probe=is_probe) for text in texts
        ]
        for text, answer in zip(texts, self.client.answers(asked), strict=True):
            yield scoring.read(answer.data, text, self.listed)

    def tell(self, what: str, done: int, of: int) -> None:
        """Show how far a check is, how fast requests are answered, and how long it may go on."""
        left = self.client.end - time.monotonic()
        until = f", at most {max(left, 0):.0f} s left" if math.isfinite(left) else ""
        self.progress(what, done, of, now=f"{self.client.pace:.3g} requests a second{until}")

    def drafts(self) -> DraftCounts:
        """Return the drafts that the server has counted since it began; none where it does not say."""
        for path in COUNTERS:
            with suppress(ServerError):
                counts = drafts_counted(self.client.ask([Request(path, is_probe=True)])[0].data)
                if counts.accepted is not None:
                    return counts
        return DraftCounts()

    @cached_property
    def takes_seeds(self) -> bool:
        """Whether a request with a seed is answered."""
        try:
            self.complete([Ask(self.prompts[0], 1, _SEEDS[0])])
        except RefusedError:
            return False
        return True

    @cached_property
    def repeats_seeds(self) -> bool:
        """Whether a few seeded requests gave the same completions twice, and not all the same one."""
        if not self.takes_seeds:
            return False
        asks = [Ask(self.prompts[0], 8, seed) for seed in _SEEDS]
        first, second = ([c.tokens for c in self.complete(asks)] for _ in range(2))
        return first == second and len(set(first)) > 1


def connect(
    client: Client,
    sampling: Sampling,
    *,
    api: str = "",
    model: str = "",
    prompts: Sequence[str] = (),
    progress: Progress = lambda *_, **__: None,
) -> Server:
    """Find out what the server speaks, and return it; ``api`` and ``model`` "" are found out too.

    ``prompts`` are texts, or JSON lists of token ids. Raises `ServerError`, `InvalidInputError`.
    """
    client.url = client.url.removesuffix("/v1")
    if api != "openai" and (_is_llama_cpp(client) or api):
        spoken: Api = LlamaCpp()
    else:
        spoken = OpenAI(model or _first_model(client))
    given = tuple(_read_prompt(prompt) for prompt in prompts) or PROMPTS
    server = _negotiated(Server(client, spoken, sampling, given[:1], LISTINGS[0], progress=progress))
    ids = _as_ids(server, given)
    if ids is not None:
        return replace(server, prompts=ids)
    if any(isinstance(prompt, tuple) for prompt in given):
        raise InvalidInputError("prompt: the server does not take and show token ids; give a text prompt")
    return replace(server, prompts=given, listed=0, by_letters=True)


def same_prompts(server: Server, other: Server) -> Server:
    """Return the server with the token ids of the prompts of another one; both must list probabilities."""
    if not (server.listed and other.listed):
        raise InvalidInputError("draft: both servers must take token ids and report log-probabilities")
    return replace(server, prompts=other.prompts)


def _is_llama_cpp(client: Client) -> bool:
    try:
        return "default_generation_settings" in client.ask([Request("/props")])[0].data
    except RefusedError:
        return False


def _first_model(client: Client) -> str:
    try:
        models = json.loads(client.ask([Request("/v1/models")])[0].data)["data"]
        return str(models[0]["id"])
    except RefusedError as error:
        use = "--api-key-env" if str(error).startswith(_NO_KEY) else "--model"
        raise InvalidInputError(f"model: the server does not name its models: {error}; use {use}") from None
    except (LookupError, TypeError, ValueError):
        raise InvalidInputError("model: the server does not name its models; use --model") from None


def _read_prompt(text: str) -> Prompt:
    """Return a prompt given on the command line."""
    if not text.startswith("["):
        return text
    try:
        ids = json.loads(text)
    except ValueError:
        return text
    if not ids or not all(type(token) is int and token >= 0 for token in ids):
        raise InvalidInputError(f"prompt: expected text or a JSON list of token ids, got {text!r}")
    return tuple(ids)


def _negotiated(server: Server) -> Server:
    """Return the server with the fields and the number of log-probabilities that it agrees to."""
    ways: list[Api] = [server.api]
    if isinstance(server.api, OpenAI):
        ways.append(replace(server.api, extra={}))
    refusal = ServerError("nothing was asked")
    for listed, api in product((*LISTINGS, 0), ways):
        tried = replace(server, api=api, listed=listed, takes_lists=isinstance(api, LlamaCpp))
        try:
            (completion,) = tried.complete([Ask(tried.prompts[0], 1, listed=listed)])
        except RefusedError as error:
            refusal = error
            continue
        server.client.ordinary = api.request(Ask(tried.prompts[0], 1), tried.sampling)
        return replace(tried, listed=listed if completion.logs else 0)
    asked = server.api.request(Ask("", 1), server.sampling)
    raise RefusedError(f"a request to {asked.path} is refused: {refusal}")


def _as_ids(server: Server, prompts: tuple[Prompt, ...]) -> tuple[Prompt, ...] | None:
    """Return the prompts as token ids; None where the server does not take and show them."""
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    try:
        answers = server.client.ask([server.api.tokenize(text) for text in texts])
        ids = iter([tuple(answer.data["tokens"]) for answer in answers])
        found = tuple(next(ids) if isinstance(prompt, str) else prompt for prompt in prompts)
        (completion,) = server.complete([Ask(found[0], 1)])
    except (RefusedError, LookupError, TypeError):
        return None
    return found if all(isinstance(token, int) for token in completion.tokens) else None
