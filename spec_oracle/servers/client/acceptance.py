"""The acceptance log of llama.cpp's server with a draft model, over HTTP.

A streamed completion counts drafted and accepted tokens after each of its tokens, so that the numbers of each
call follow. Which tokens were drafted it does not show. A draft model that is not sampled drafts its most
likely tokens, which a second server with its weights, without speculation, reports. What the target accepts
and emits must fit them. Probabilities of the target come from requests for one token, which draft nothing.
"""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TextIO

from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, ServerError

LISTED = 1000
"""Tokens whose probabilities are asked for."""

NO_REST = 1e-4
"""Probability outside a list of tokens that counts as none; the server rounds to float32."""


def record_calls(log: TextIO, target: Server, draft: Server, *, tokens: int, seeds: Sequence[int]) -> int:
    """Write the calls of completions after each of the target's prompts, of ``tokens`` tokens; count them.

    The prompts are token ids. ``draft`` serves the draft model, without speculation and with no filters.
    Raises `ServerError` where the emitted tokens contradict the drafts that it reports, as with sampled
    drafts, and where a drafted token is outside the list of a target's probabilities.
    """
    written = 0
    for seed, (label, prompt) in product(seeds, enumerate(target.prompts)):
        emitted, calls = _completion(target, Ask(prompt, tokens, seed))
        for start, length, accepted in calls:
            context = (*prompt, *emitted[:start])
            drafted = _drafted(draft, context, length)
            _require_fit(drafted, accepted, emitted[start : start + accepted + 1])
            asks = [Ask((*context, *drafted[:place]), 1, listed=LISTED) for place in range(length)]
            p = [
                _probability(answer.logs or {}, token)
                for answer, token in zip(target.complete(asks), drafted, strict=True)
            ]
            call = {"prompt": label, "drafted": drafted, "accepted": accepted, "p": p, "q": [1.0] * length}
            log.write(json.dumps(call) + "\n")
            written += 1
    return written


def _completion(server: Server, ask: Ask) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return the tokens, and of each call where it starts, how many tokens it drafted and accepted."""
    asked = Ask(ask.prompt, ask.tokens, ask.seed, fields={"stream": True, "timings_per_token": True})
    (answer,) = server.client.ask([server.api.request(asked, server.sampling)])
    emitted: list[int] = []
    calls, before = [], (0, 0)
    for part in _parts(answer.data):
        timings = part.get("timings") or {}
        counts = timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
        if counts[0] > before[0]:
            calls.append((len(emitted), counts[0] - before[0], counts[1] - before[1]))
            before = counts
        emitted += part["tokens"]
    return emitted, calls


def _parts(text: str) -> Iterator[Any]:
    """Yield the objects of a stream of server-sent events."""
    for line in text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _drafted(draft: Server, context: Sequence[Any], length: int) -> list[Any]:
    """Return the draft model's most likely tokens, each after those before it."""
    tokens: list[Any] = []
    for _ in range(length):
        (answer,) = draft.complete([Ask((*context, *tokens), 1, listed=1)])
        if not answer.logs:
            raise ServerError("the server of the draft model reports no probabilities")
        tokens.append(max(answer.logs, key=answer.logs.__getitem__))
    return tokens


def _require_fit(drafted: Sequence[object], accepted: int, emitted: Sequence[object]) -> None:
    """Raise unless the accepted drafts were emitted, and the next draft was not."""
    shown = drafted[: min(accepted, len(emitted))]
    is_refused = accepted < len(drafted) and len(emitted) > accepted
    if shown != [*emitted[:accepted]] or (is_refused and drafted[accepted] == emitted[accepted]):
        raise ServerError(
            f"the draft model's most likely tokens are {drafted}, but {accepted} accepted and one more are "
            f"{[*emitted]}: are drafts sampled, or are these other weights?"
        )


def _probability(logs: Any, token: object) -> float:
    """Return the probability of a token; 0 where those of all others add up to 1."""
    if token in logs:
        return math.exp(logs[token])
    if 1 - sum(map(math.exp, logs.values())) > NO_REST:
        raise ServerError(f"token {token} was drafted, and is not among the {len(logs)} likeliest tokens")
    return 0.0
