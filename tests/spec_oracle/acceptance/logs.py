"""Acceptance logs of engines whose rule is known, made from random rows."""

import json
from dataclasses import replace
from functools import cache

import numpy as np

from spec_oracle.acceptance.log import digest, read_calls
from spec_oracle.acceptance.rules import RULES

VOCAB, LENGTH = 20, 4


def rows_and_drafts(count, rng):
    """Yield target rows [L, V], draft rows [L, V] and drafted tokens [L] of calls."""
    for _ in range(count):
        target, noise = (rng.dirichlet(np.full(VOCAB, 0.3), LENGTH) for _ in range(2))
        draft = 0.6 * target + 0.4 * noise
        yield target, draft, [int(rng.choice(VOCAB, p=row)) for row in draft]


def fields(target, draft, tokens):
    """Return the numbers of a call that a recorder logs."""
    ids = np.arange(VOCAB)
    found = digest(tokens, [(ids, row) for row in target], [(ids, row) for row in draft])
    return {name: (one[0] if name == "surplus" else one).tolist() for name, one in found.items()}


@cache
def lines(count, seed=0, rule="token", factor=1.0, **labels):
    """Return the log of an engine that accepts ``factor`` times as often as a rule."""
    rng = np.random.default_rng(seed)
    data = [
        labels | {"drafted": tokens, "accepted": 0} | fields(target, draft, tokens)
        for target, draft, tokens in rows_and_drafts(count, rng)
    ]
    calls = with_counts(read_calls(map(json.dumps, data)), rng, rule, factor)
    pairs = zip(data, calls.accepted.tolist(), strict=True)
    return tuple(json.dumps(call | {"accepted": accepted}) for call, accepted in pairs)


def with_counts(calls, rng, rule="token", factor=1.0):
    """Return the calls with other counts, sampled from a rule."""
    chances = np.minimum(1, factor * RULES[rule].chances(calls, 0.0))
    failed = rng.random(chances.shape) >= chances
    return replace(calls, accepted=(failed.cumsum(axis=1) == 0).sum(axis=1))
