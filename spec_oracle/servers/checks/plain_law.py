"""The check `plain-law`: one-token samples of a server follow the probabilities that it reports.

Its completions are judged by these. Where samples follow others, nothing can be said of completions.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.effort import FIRST_LOOK
from spec_oracle.audit.experiment import Experiment
from spec_oracle.audit.logprobs import READINGS, Distribution
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, not_asked
from spec_oracle.audit.sampling import Effort, OutcomeCells
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks.bins import ServedOutcomes, log_error
from spec_oracle.servers.checks.conclusion import judged
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.subject import NEEDS_PROBABILITIES, ServerSubject
from spec_oracle.servers.client.server import Server

ABOVE_ZERO = 0.01
"""Nats that rounding explains in the log-probability of a token that is certain."""

TOO_FEW = "the server reports too few probabilities to know what it samples from"

OneToken = tuple[Prefix, Token | None]
"""A token after a prefix; None for any that is not listed there."""


def plain_law(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge samples after the prompts and after likely first tokens."""
    if not subject.server.listed:
        return not_asked(NEEDS_PROBABILITIES)
    reported, rng = subject.distributions, context.stream("server/plain-law")
    known = _known(reported)
    highest = max((log for row in reported.logs.values() if row for log in row.values()), default=0.0)
    if highest > ABOVE_ZERO:
        wrong = f"the server reports {highest:.3g} as a log-probability, which is at most 0"
        return failed(wrong, how=How.SAMPLED, do="report logarithms: probabilities stand in their place")
    if not known:
        return inconclusive(f"{TOO_FEW}; {lists_too_few(subject.server) or 'use --top-k, or temperature 1'}")

    def more(count: int) -> Iterator[tuple[Prefix, Token]]:
        prefixes = list(known)
        chosen = rng.integers(len(prefixes), size=count)
        yield from reported.samples([prefixes[place] for place in chosen])
        subject.server.tell("plain-law", len(requests.found), 0)

    requests = ServedOutcomes(more)
    for _ in READINGS:
        what = f"one token after {len(known)} prefixes, probabilities {reported.reading}"
        experiment = Experiment(
            what,
            "one token",
            dict,
            requests,
            binned=partial(tokens_after, known, is_noisy=reported.is_noisy),
            shown=_in_words,
        )
        effort = Effort(tv=subject.plan.coarse, look=FIRST_LOOK, keeps=True)
        result, _ = judged(experiment, requests, context, effort, reported)
        # Few samples chose the reading. Right samples contradict the likeliest one no more than their own.
        reading, *rivals = reported.likely_readings(requests.found)
        likely = reported.reading, *reported.rivals
        reported.rivals = [one for one in rivals if one in likely]
        if reading == reported.reading:
            break
        reported.reading, requests.given = reading, 0
        known = _known(reported)
    if result.status is Status.FAILED and (few := lists_too_few(subject.server)):
        return inconclusive(f"{TOO_FEW}; {few}", draws=result.measured.draws)
    if result.status is Status.PASSED and reported.drafted:
        detail = f"{reported.drafted} tokens were drafted for one-token requests: not target-only decoding"
        return inconclusive(detail, alpha=result.measured.alpha, draws=result.measured.draws)
    return result


def _known(reported: Distributions) -> dict[Prefix, Distribution]:
    """Return the distributions near the prompts that are known."""
    return {prefix: law for prefix in reported.near() if (law := reported.after(prefix)) is not None}


def lists_too_few(server: Server) -> str:
    """Say that the server lists fewer log-probabilities than can be sampled, and what to ask for; else ""."""
    listed, top_k = server.listed, server.sampling.top_k
    return f"it lists {listed} of {top_k}; ask for --top-k {listed}" if top_k > listed else ""


def tokens_after(known: dict[Prefix, Distribution], *, is_noisy: bool = False) -> OutcomeCells:
    """Return a cell for each listed token after each of several prefixes, chosen at random.

    Where equal requests differ, noise may let another token pass a filter in place of the least likely one.
    """
    listed = [
        (prefix, token, mass, error)
        for prefix, law in known.items()
        for token, mass, error in (
            *zip(law.tokens, law.probabilities, law.probabilities * np.expm1(law.slack), strict=True),
            (None, law.other, law.other_error),
        )
    ]
    outcomes: list[OneToken] = [(prefix, token) for prefix, token, _, _ in listed]
    number = {outcome: cell for cell, outcome in enumerate(outcomes)}
    if is_noisy:
        number |= {(one, None): number[one, law.tokens[-1]] for one, law in known.items() if not law.other}
    masses, errors = np.array([[mass, error] for _, _, mass, error in listed], dtype=np.float64).T

    def cells_of(found: Sequence[tuple[Prefix, Token]]) -> Integers:
        cells = [number.get(one, number[one[0], None]) for one in found]
        return np.array(cells, dtype=np.int64)

    return OutcomeCells(masses / len(known), cells_of, outcomes, log_error(masses, errors))


def _in_words(outcome: OneToken) -> str:
    (number, before), token = outcome
    which = "a token that is not listed" if token is None else f"token {token!r}"
    return f"{which} after prompt {number + 1}" + f" and {list(before)!r}" * bool(before)
