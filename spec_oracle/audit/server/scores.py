"""The next-token distributions along whole completions: by one request each, where the server scores prompts.

A server that lists log-probabilities of the tokens of a prompt scores a completion in one request, in place
of one request for each of its tokens. It is used where it lists what one-token requests list.
"""

from collections.abc import Iterable, Iterator, Sequence

from spec_oracle.adapters.servers.scoring import SCORINGS, Listed, Scoring
from spec_oracle.audit import effort
from spec_oracle.audit.server.distributions import Distributions
from spec_oracle.audit.server.logprobs import difference, tolerance
from spec_oracle.audit.server.weights import Weights
from spec_oracle.contracts.server import Ask, OutOfTimeError, Prefix, ServerError


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
    if known.scoring is None:
        known.scoring = _found(known) or ""
    if not known.scoring:
        # The longest first: a server's cache of it holds the shorter ones.
        known.fetch((n, tokens[:end]) for n, tokens in missing for end in range(len(tokens) - 1, 0, -1))
        return
    for (number, tokens), rows in zip(missing, _scores(known, missing, known.scoring), strict=True):
        known.logs.update(((number, tokens[:end]), row) for end, row in enumerate(rows))


def _found(known: Distributions) -> Scoring | None:
    """Return how the server scores completions as one-token requests do, up to noise; None if not."""
    (answer,) = known.server.complete([Ask(known.server.prompts[0], effort.SERVER_SCORED)])
    prefixes: list[Prefix] = [(0, answer.tokens[:end]) for end in range(len(answer.tokens))]
    known.fetch(prefixes)
    for scoring in SCORINGS:
        try:
            (rows,) = _scores(known, [(0, answer.tokens)], scoring, is_probe=True)
        except OutOfTimeError:
            raise
        except ServerError:
            continue
        pairs = [(known.logs[prefix] or {}, row or {}) for prefix, row in zip(prefixes, rows, strict=True)]
        differ = max(difference(*pair) for pair in pairs)
        if differ <= tolerance(known):
            known.noise = max(known.noise, differ - known.rounding)
            return scoring
    return None


def _scores(
    known: Distributions, completions: Sequence[Prefix], scoring: Scoring, *, is_probe: bool = False
) -> Iterator[list[Listed]]:
    """Yield what is listed at each token of completions."""
    texts = [(*known.server.prompts[number], *tokens) for number, tokens in completions]
    scores = known.server.score(texts, scoring, is_probe=is_probe)
    for (_, tokens), rows in zip(completions, scores, strict=True):
        yield rows[len(rows) - len(tokens) :]
