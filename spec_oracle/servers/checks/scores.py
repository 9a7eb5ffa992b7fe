"""The next-token distributions along whole completions: by one request each, where the server scores prompts.

A server that lists log-probabilities of the tokens of a prompt scores a completion in one request, in place
of one request for each of its tokens. It is used where it lists what one-token requests list; so is a server
of the same model that does not speculate.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import numpy as np

from spec_oracle.audit.logprobs import SEEN_MASS, Logs, difference
from spec_oracle.contracts.completion import Prefix
from spec_oracle.servers.checks.distributions import Distributions, Weights
from spec_oracle.servers.client.apis import SCORINGS, Listed, Scoring
from spec_oracle.servers.contract import Ask, OutOfTimeError, ServerError, prefixes_of

SERVER_SCORED: Final = 8  # Tokens of the completion by which it is found out how prompts are scored.
SERVER_SCORED_PROMPTS: Final = (4, 12, 48)  # Tokens of prompts whose scores are compared, and the whole one.
WRONG_SCORES: Final = 0.3  # Difference, besides that of equal requests, that no rounding explains, nats.


def fetch_along(known: Distributions | Weights, completions: Iterable[Prefix]) -> None:
    """Fetch the distributions at all tokens of completions but their first ones."""
    if isinstance(known, Weights):
        known.compute(completions)
        return
    missing = [one for one in completions if any(place not in known.logs for place in prefixes_of(one, 1))]
    if not missing:
        return
    if known.along is None:
        known.along = _found(known)
    source, scoring = known.along
    if scoring is None:
        width = source.server.client.limits.concurrency
        for start in range(0, len(missing), width):
            some = missing[start : start + width]
            prefixes = [prefix for completion in some for prefix in prefixes_of(completion, 1)]
            # The longest first, each in its own slot: the cache of it holds the shorter ones.
            prefixes.sort(key=lambda prefix: -len(prefix[1]))
            if source.server.takes_lists:
                for _, equally_long in groupby(prefixes, lambda prefix: len(prefix[1])):
                    source.fetch(equally_long, together=True)
            source.fetch(prefixes)
            known.logs.update((prefix, source.logs[prefix]) for prefix in prefixes)
        source.ask_again(prefixes)
        known.differ = source.differ
        return
    for completion, rows in zip(missing, _scores(source, missing, scoring), strict=True):
        known.logs.update(zip(prefixes_of(completion), rows, strict=True))


def _found(known: Distributions) -> tuple[Distributions, Scoring | None]:
    """Return whom to ask, and how it scores completions: the first that agrees with one-token requests.

    A reference is asked token by token, too, where nothing is scored: it drafts nothing, and so is faster.
    """
    server, reference = known.server, known.reference
    (answer,) = server.complete([Ask(server.prompts[0], SERVER_SCORED)])
    prefixes = prefixes_of((0, answer.tokens))
    known.fetch(prefixes)
    ways: list[tuple[Distributions, Scoring | None]] = [(known, scoring) for scoring in SCORINGS]
    if reference is not None and reference.listed:
        other = Distributions(replace(reference, prompts=server.prompts, listed=server.listed))
        ways += [(other, scoring) for scoring in (*SCORINGS, None)]
    for source, scoring in ways:
        try:
            if scoring is None:
                source.fetch(prefixes)
                rows: Sequence[Logs | None] = [source.logs[prefix] for prefix in prefixes]
            else:
                (rows,) = _scores(source, [(0, answer.tokens)], scoring, is_probe=True)
        except OutOfTimeError:
            raise
        except ServerError:
            continue
        pairs = [(known.logs[prefix] or {}, row or {}) for prefix, row in zip(prefixes, rows, strict=True)]
        differ = max(difference(*pair) for pair in pairs)
        if differ <= known.tolerance:
            known.noise = max(known.noise, differ - known.rounding)
            return source, scoring
    return known, None


def _scores(
    known: Distributions, completions: Sequence[Prefix], scoring: Scoring, *, is_probe: bool = False
) -> Iterator[list[Listed]]:
    """Yield the log-probabilities listed at each token of completions."""
    texts = [known.server.ids(completion) for completion in completions]
    scores = known.server.score(texts, scoring, is_probe=is_probe)
    for (_, tokens), rows in zip(completions, scores, strict=True):
        yield rows[len(rows) - len(tokens) :]


def wrong_scores(known: Distributions) -> str:
    """Say which prompts are scored otherwise than by one-token requests, "" if none is.

    Scores before temperature and filters are right, where one-token requests report those after.
    """
    server = known.server
    longest = max(range(len(server.prompts)), key=lambda number: len(server.prompts[number]))
    (answer,) = server.complete([Ask(server.prompts[longest], SERVER_SCORED)])
    text = server.ids((longest, answer.tokens))
    lengths = [*(one for one in SERVER_SCORED_PROMPTS if one < len(text)), len(text)]
    for scoring in SCORINGS:
        try:
            off = {length: _scored_off(known, text[:length], scoring) for length in lengths}
        except OutOfTimeError:
            raise
        except ServerError:
            continue
        allowed = WRONG_SCORES + known.tolerance
        if wrong := [length for length in lengths if off[length] > allowed]:
            right = [length for length in lengths if length not in wrong]
            others = f"; those of {_counted(right)} agree" if right else ""
            differ = f"differ by up to {max(off.values()):.2g} nats from what one-token requests report"
            return f"{scoring.name} of prompts of {_counted(wrong)} {differ} after the same tokens{others}"
    return ""


def _counted(lengths: Sequence[int]) -> str:
    return f"{' and '.join(map(str, lengths))} tokens"


def _scored_off(known: Distributions, text: tuple[int, ...], scoring: Scoring) -> float:
    """Return the largest difference of scores and one-token requests at the last tokens of a text, nats."""
    server = known.server
    (rows,) = server.score([text], scoring, is_probe=True)
    alone = Distributions(replace(server, prompts=(text[:1],)))
    places = range(max(1, len(text) - SERVER_SCORED), len(text))
    alone.fetch((0, text[1:place]) for place in places)
    heat = server.sampling.temperature
    pairs = ((alone.logs[0, text[1:place]] or {}, rows[place] or {}) for place in places)
    return max((_off_in_shape(one, other, heat) for one, other in pairs), default=0.0)


def _off_in_shape(one: Logs, other: Logs, heat: float) -> float:
    """Return the least difference of two lists, nats: as they are, or before and after sampling filters."""
    both = [
        token for token in one.keys() & other.keys() if min(one[token], other[token]) > math.log(SEEN_MASS)
    ]
    if len(both) < 2:
        return 0.0
    first, second = (np.array([logs[token] for token in both]) for logs in (one, other))
    first, second = first - first.mean(), second - second.mean()
    return float(min(abs(first - scale * second).max() for scale in (1.0, heat, 1 / heat)))
