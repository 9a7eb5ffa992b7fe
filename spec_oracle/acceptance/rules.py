"""How far each rule accepts a draft path: its chances to go on, given the drafted tokens.

A rule is represented by the chances a_i to accept draft i once the drafts before it are accepted, [N, L]:
P(tau >= i) = a_1 ... a_i, whatever the rule. Given the drafts they are known numbers; the mean of the
accepted length over drafts from q is what `spec_oracle.exact.emission_law` enumerates, and the tests compare
the two in rationals. Of one path, block verification is the optimum: no lossless rule accepts more on average
over drafts, though one may after some of them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from spec_oracle.acceptance.log import LoggedCalls, block_weights
from spec_oracle.arrays import Booleans, Floats, Numbers

TYPICAL_THRESHOLD, TYPICAL_SHARE = 0.09, 0.3
"""Of typical acceptance: Medusa's posterior threshold and posterior alpha (arXiv 2401.10774, section 3.1)."""


@dataclass(frozen=True)
class Rule:
    """``chances(calls, slack)``: [N, L], with log p and log q off by up to ``slack`` nats upwards, or down.

    ``needs`` are the fields of a log besides p and q; ``says`` when a drafted token x is accepted.
    """

    chances: Callable[[LoggedCalls, float], Numbers]
    says: str
    needs: tuple[str, ...] = ()
    is_lossless: bool = True

    def missing(self, calls: LoggedCalls) -> tuple[str, ...]:
        """Return the fields that the rule depends on and the log lacks."""
        return tuple(name for name in self.needs if getattr(calls, name) is None)


def accepted_lengths(chances: Numbers) -> Numbers:
    """Return P(tau >= i), i = 1..L, [N, L], from the chances to go on."""
    return np.cumprod(chances, axis=1)


def _times(values: Numbers, slack: float) -> Numbers:
    """Return ``values`` times e^slack; as they are for no slack, so that rationals stay rational."""
    return values * math.exp(slack) if slack else values


def _token(calls: LoggedCalls, slack: float) -> Numbers:
    return np.asarray(np.minimum(1, _times(calls.p / calls.q, slack)))


def _match(calls: LoggedCalls, slack: float) -> Numbers:
    return np.asarray(np.minimum(1, _times(calls.p, slack)))


def _greedy(calls: LoggedCalls, slack: float) -> Floats:
    assert calls.largest is not None
    return _if(_times(calls.p, 2 * max(slack, 0.0)) >= calls.largest, calls, slack)


def _typical(calls: LoggedCalls, slack: float) -> Floats:
    assert calls.entropy is not None
    threshold = np.minimum(TYPICAL_THRESHOLD, TYPICAL_SHARE * np.exp(-calls.entropy))
    return _if(_times(calls.p, 2 * max(slack, 0.0)) > threshold, calls, slack)


def _if(is_accepted: Booleans, calls: LoggedCalls, slack: float) -> Floats:
    return np.asarray(_times((is_accepted & calls.is_draft).astype(float), min(slack, 0.0)))


def _block(calls: LoggedCalls, slack: float) -> Numbers:
    """Block verification: tau is the largest i whose independent accept uniform is below h_i.

    h_i = S_i / (S_i + 1 - w_i), and h_L = w_L, which is the same with q = 0 after the last draft: S_L = w_L.
    P(tau >= i) = T_i = h_i + (1 - h_i) T_{i+1}, so a_i = T_i / (h_{i-1} + (1 - h_{i-1}) T_i), which grows
    with T_i and falls with h_{i-1}. Where S is only bounded, each takes the bound on the slack's side.
    """
    assert calls.surplus is not None
    lower, upper = calls.surplus
    bounds = {-1: (lower, upper), 0: ((lower + upper) / 2,) * 2, 1: (upper, lower)}
    weights = block_weights(calls.p, calls.q)
    ahead, behind = (_stops(calls, weights, one) for one in bounds[int(np.sign(slack))])
    tails = [ahead[:, -1] * 0]
    for stop in ahead.T[:0:-1]:
        tails.append(stop + (1 - stop) * tails[-1])
    tail = np.stack(tails[:0:-1], axis=1)
    before = behind[:, :-1] + (1 - behind[:, :-1]) * tail
    return np.asarray(np.minimum(1, _times(_ratio(tail, before, otherwise=0), slack)))


def _stops(calls: LoggedCalls, weights: Numbers, surplus: Numbers) -> Numbers:
    """Return h_i, i = 0..L, [N, L+1]; after the end of a shorter draft 0."""
    inside = np.concatenate([calls.is_draft, np.zeros((len(calls.p), 1), dtype=bool)], axis=1)
    left = np.where(inside, np.concatenate([surplus, surplus[:, :1]], axis=1), weights)
    stops = _ratio(left, left + 1 - weights, otherwise=1)
    stops[:, 0] = stops[:, 0] * 0 + 1
    return stops


def _ratio(above: Numbers, below: Numbers, otherwise: int) -> Numbers:
    is_zero = below == 0
    return np.asarray(np.where(is_zero, otherwise, above / np.where(is_zero, 1, below)))


RULES: Mapping[str, Rule] = {
    "token": Rule(_token, "with probability min(1, p / q)"),
    "block": Rule(_block, "with its whole prefix: block verification, the optimum of one path", ("surplus",)),
    "sample_and_match": Rule(_match, "if a sample of the target equals it: with probability p"),
    "greedy": Rule(_greedy, "if it is the target's most likely token", ("largest",), is_lossless=False),
    "typical": Rule(_typical, "if p > min(0.09, 0.3 exp(-entropy))", ("entropy",), is_lossless=False),
}
"""The rules of one path whose accepted length a log can be compared with."""
