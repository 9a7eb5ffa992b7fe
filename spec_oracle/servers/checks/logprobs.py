"""The check `logprobs`: the log-probabilities reported of a completion are those of one-token requests.

A request for one token has nothing to speculate on. So the log-probability that is reported of each token of
a completion must be the one that a one-token request reports after the same tokens: up to rounding, and up to
what equal requests differ by anyway. Nothing is estimated, so one completion decides. Scores of prompts are
compared, too, if the server gives some.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import SEEN_MASS, Logs, ReportedLogprobs
from spec_oracle.audit.results import CheckResult, How, Status, check_result, failed, not_asked
from spec_oracle.contracts.completion import Completion
from spec_oracle.servers.checks.distributions import SERVER_SCORED, Distributions, ids_after
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.client.apis import SCORINGS, Scoring
from spec_oracle.servers.contract import Ask, OutOfTimeError, ServerError, prefixes_of

# Completions after each prompt whose log-probabilities are compared with those of one-token requests.
SERVER_LOGPROBS: Final = 3
SERVER_SCORED_PROMPTS: Final = (4, 12, 48)  # Tokens of prompts whose scores are compared, and the whole one.
WRONG_SCORES: Final = 0.3  # Difference, besides that of equal requests, that no rounding explains, nats.


def logprobs(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare log-probabilities of completions after each prompt, token by token, with one-token requests."""
    del context
    server, reported = subject.server, subject.distributions
    length, tokens, drafted, completions = effort.SERVER_LONGER * subject.plan.tokens, 0, 0, 0
    if why := subject.why_no_rows(length):
        return not_asked(why)
    try:
        for number in list(range(len(server.prompts))) * SERVER_LOGPROBS:
            (answer,) = server.complete([Ask(server.prompts[number], length, listed=server.listed)])
            reading = compared(answer, number, reported)
            if fault := reading.fault(server.sampling):
                drafts = f"; {answer.accepted} accepted drafts" if answer.accepted is not None else ""
                return failed(f"{fault}{drafts}", draws=completions + 1, how=How.SAMPLED)
            tokens, completions = tokens + len(answer.tokens), completions + 1
            drafted += answer.drafted or 0
            server.tell("logprobs", completions, len(server.prompts) * SERVER_LOGPROBS)
        if wrong := wrong_scores(reported):
            do = "score such prompts by requests for one token, or correct the scores"
            return failed(wrong, draws=completions, how=How.SAMPLED, do=do)
    except OutOfTimeError:
        if not completions:
            raise
    detail = (
        f"{tokens:,} log-probabilities of {completions:,} completions equal those of one-token requests, "
        f"up to {reading.tolerance:.2g} nats"
    )
    if not drafted and subject.completions.drafts.drafted:
        detail += "; the server drafts nothing where log-probabilities are asked for"
    say = partial(check_result, draws=completions, how=How.SAMPLED)
    if reading.tolerance > effort.SERVER_LOGPROBS_COARSEST:
        return say(Status.INCONCLUSIVE, f"{detail}; {reported.uncertainty}")
    return say(Status.PASSED, detail)


def compared(completion: Completion, number: int, distributions: Distributions) -> ReportedLogprobs:
    """Compare a completion with one-token requests; ask again where they differ: noise may be the cause."""
    prefixes = prefixes_of((number, completion.tokens))
    allowed = distributions.tolerance

    def asked() -> ReportedLogprobs:
        distributions.fetch(prefixes)
        logs = [distributions.logs[prefix] or {} for prefix in prefixes]
        return ReportedLogprobs(completion, logs, distributions.server.listed, allowed)

    for place in asked().differing():
        distributions.logs.pop(prefixes[place], None)
    return asked()


def wrong_scores(known: Distributions) -> str:
    """Say which prompts are scored otherwise than by one-token requests, "" if none is.

    Scores before temperature and filters are right, where one-token requests report those after.
    """
    server = known.server
    longest = max(range(len(server.prompts)), key=lambda number: len(server.prompts[number]))
    (answer,) = server.complete([Ask(server.prompts[longest], SERVER_SCORED)])
    text = ids_after(server, (longest, answer.tokens))
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
