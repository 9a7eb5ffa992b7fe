"""The next-token distributions along whole completions: by one request each, where the server scores prompts.

A server that lists log-probabilities of the tokens of a prompt scores a completion in one request, in place
of one request for each of its tokens. It is used where it lists what one-token requests list; so is a server
of the same model that does not speculate.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from spec_oracle.audit.logprobs import Logs, difference
from spec_oracle.contracts.completion import Prefix
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.logprobs import tolerance
from spec_oracle.servers.checks.weights import Weights
from spec_oracle.servers.client.scoring import SCORINGS, Listed, Scoring
from spec_oracle.servers.contract import Ask, OutOfTimeError, ServerError

SERVER_SCORED: Final = 8  # Tokens of the completion by which it is found out how prompts are scored.


def fetch_along(known: Distributions | Weights, completions: Iterable[Prefix]) -> None:
    """Let the distributions at all tokens of completions be known, but those at their first tokens."""
    if isinstance(known, Weights):
        known.compute(completions)
        return
    missing = [
        (number, tokens)
        for number, tokens in completions
        if any((number, tokens[:end]) not in known.logs for end in range(1, len(tokens)))
    ]
    if not missing:
        return
    if known.along is None:
        known.along = _found(known)
    source, scoring = known.along
    if scoring is None:
        width = source.server.client.limits.concurrency
        for start in range(0, len(missing), width):
            some = missing[start : start + width]
            prefixes = [(n, tokens[:end]) for n, tokens in some for end in range(1, len(tokens))]
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
    for (number, tokens), rows in zip(missing, _scores(source, missing, scoring), strict=True):
        known.logs.update(((number, tokens[:end]), row) for end, row in enumerate(rows))


def _found(known: Distributions) -> tuple[Distributions, Scoring | None]:
    """Return whom to ask, and how it scores completions: the first that agrees with one-token requests.

    A reference is asked token by token, too, where nothing is scored: it drafts nothing, and so is faster.
    """
    server, reference = known.server, known.reference
    (answer,) = server.complete([Ask(server.prompts[0], SERVER_SCORED)])
    prefixes: list[Prefix] = [(0, answer.tokens[:end]) for end in range(len(answer.tokens))]
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
        if differ <= tolerance(known):
            known.noise = max(known.noise, differ - known.rounding)
            return source, scoring
    return known, None


def _scores(
    known: Distributions, completions: Sequence[Prefix], scoring: Scoring, *, is_probe: bool = False
) -> Iterator[list[Listed]]:
    """Yield what is listed at each token of completions."""
    texts = [(*known.server.prompts[number], *tokens) for number, tokens in completions]
    scores = known.server.score(texts, scoring, is_probe=is_probe)
    for (_, tokens), rows in zip(completions, scores, strict=True):
        yield rows[len(rows) - len(tokens) :]
