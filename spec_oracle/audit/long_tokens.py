"""The result of a check of long completions, of engines and of servers: each token judged by its row."""

import math
from functools import partial
from typing import Final, Protocol

from spec_oracle.audit import effort
from spec_oracle.audit.results import CheckResult, How, Status, check_result
from spec_oracle.statistics.long_completions import ALL, APART, TokenEvidence, by
from spec_oracle.statistics.power import draws_needed_by_joint_e_process

RATIO: Final = "p/q"
N_GRAM: Final = "n-gram"
_TENTHS: Final = [0.1] * 10
_SHOWN: Final = 5
"""Tests that the scope shows."""

_PART: Final = 0.05
"""Of the rate: about that of one order, by which completions are planned."""


class JudgedTokens(Protocol):
    """Completions whose tokens were judged; ``ruled_out`` says what proves them wrong, "" if nothing does."""

    evidence: TokenEvidence
    completions: int
    ruled_out: str


def tokens_needed(tv: float, rate: float, part: float = _PART) -> int:
    """Return how many tokens detect a total variation of ``tv`` a token between ten bins."""
    return draws_needed_by_joint_e_process(tv, [_TENTHS], alpha=part * rate)


def is_decided(read: JudgedTokens, rate: float) -> bool:
    """Whether completions are known to be wrong."""
    return bool(read.ruled_out) or read.evidence.p_value <= rate


def most_in(name: str) -> str:
    """Say where the evidence is largest, by the name of a test: an order and tokens.

    >>> most_in("by p, all tokens")
    'seen best with all tokens in the order of p'
    >>> most_in("by p/q, a token and the next one")
    'seen best in pairs of a token and the next one in the order of p/q'
    >>> most_in("by p, tokens 33 to 64")
    'seen best at tokens 33 to 64 of a completion, in the order of p'
    >>> most_in("after equal next-token distributions")
    'seen best after equal next-token distributions'
    """
    order, _, tokens = name.partition(", ")
    if not order.startswith("by "):
        return f"seen best {name}"
    ordered = f"in the order of {order.removeprefix('by ')}"
    if tokens.startswith("as if"):
        return f"seen best {ordered}, {tokens}"
    if tokens.startswith("token"):
        return f"seen best at {tokens} of a completion, {ordered}"
    at = "in pairs of " if tokens.startswith("a token") else "with " * (tokens == ALL)
    return f"seen best {at}{tokens} {ordered}"


def result_of_tokens(
    read: JudgedTokens,
    coarsest: float,
    rate: float,
    *,
    ended: str = "",
    advice: str = "raise --budget or --detect",
    uncertainty: str = "",
    pairs: float = 2 * effort.SERVER_DISTANCES_TV,
) -> CheckResult:
    """Return the result: passed if every order detects ``coarsest`` a token, and pairs of tokens ``pairs``.

    ``advice`` says how more would be detected, ``uncertainty`` so where the rows hide it; ``ended`` says why
    it ended early.
    """
    evidence, worst = read.evidence, read.evidence.worst
    what = f"{evidence.tokens:,} tokens of {read.completions:,} completion{'s' * (read.completions != 1)}"
    say = partial(check_result, alpha=rate, draws=evidence.tokens, how=How.SAMPLED)
    if read.ruled_out:
        return say(Status.FAILED, f"{what}: {read.ruled_out}")
    if not evidence.tokens:
        why = "no next-token distribution is known; use --top-k, or temperature 1"
        return say(Status.INCONCLUSIVE, f"{what}: {why}")
    scope = tuple(
        f"tokens {test.name}: log e-value {test.log_e_value:.3g} nats after {test.tokens:,} tokens"
        for test in sorted(evidence.tests, key=lambda test: -test.log_e_value)[:_SHOWN]
        if test.tokens
    )
    if evidence.p_value <= rate:
        least = evidence.least_tv(effort.SERVER_BOUND_RATE)
        size = f", by at least {least:.2g} a token in total variation" if least else ""
        detail = f"{what} contradict their next-token distributions, {most_in(worst.name)}{size}"
        return say(Status.FAILED, detail, scope=scope, total_variation=least)
    detects = evidence.detects(rate)
    seen = ", ".join(f"{tv:.2g} {order}" for order, tv in detects.items() if math.isfinite(tv))
    detail = (
        f"{what} are as expected (between bins, a total variation a token of {seen or 'no size'} would show)"
    )
    if ended:
        return say(Status.INCONCLUSIVE, f"{detail}; ended early: {ended}", scope=scope)
    # An n-gram drafter proposes something now and then only: what its order detects is stated.
    coarse = {APART: max(coarsest, pairs), by(N_GRAM): math.inf}
    coarse |= dict.fromkeys((bet.name for bet in evidence.bets), math.inf)
    if all(tv <= coarse.get(order, coarsest) for order, tv in detects.items()):
        return say(Status.PASSED, detail, scope=scope)
    doubt = worst.doubt / max(worst.tokens, 1)
    advice = uncertainty if 2 * doubt > coarsest / 2 else advice
    return say(Status.INCONCLUSIVE, f"{detail}, not {coarsest:.2g}; {advice}", scope=scope)
