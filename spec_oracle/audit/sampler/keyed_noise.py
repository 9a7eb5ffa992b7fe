"""Samplers whose noise is a hash of (request seed, absolute position): beside a rule, and over several calls.

A completion keeps its seed, and every call continues where it ends, so that a position that was drafted but
not reached comes up again with the same noise. One call cannot show what that does.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Final, TypeAlias

import numpy as np

from spec_oracle import clock
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import at_looks
from spec_oracle.audit.experiment import Experiment, numbered
from spec_oracle.audit.results import CheckResult, How, Pair, Status, passed
from spec_oracle.audit.sampler.reference import by_noise, rows_needed
from spec_oracle.contracts import Emissions, SamplerCode
from spec_oracle.contracts.sampler import KeyedSampler
from spec_oracle.statistics import DEFAULT_MISS
from verifiers import Paths

CALLS_TV: Final = 0.1  # TV of completions of several calls that must be detected.
CALLS_KEYED_REQUESTS: Final = 16  # Requests of a call.
CALLS_KEYED_LOOKS: Final = 10_000  # Looks at their completions, within the budget.
# Completions of the rule that judge whether its keyed noise keeps the distribution.
CALLS_RULE_COMPLETIONS: Final = 20_000

TOKENS: Final = 4
"""Tokens of a completion: two calls or more."""

DRAFTED: Final = 2
TARGET: Final = np.array([0.7, 0.3])
"""The toy on which reuse of keyed noise shows most per row of an interpreted kernel: two tokens, a drafter
that always proposes the first one, and a target that has it with probability 0.7."""

Keyed: TypeAlias = Callable[[Paths, Integers, Integers], Emissions]
"""Verifies drafts of requests with these seeds, [B], whose completions have so many tokens by now, [B]."""


def pair_by_keys(engine: KeyedSampler) -> Pair:
    """Return the pair of an engine and its rule, decided by the same hashes."""
    by_engine, by_rule = called_by_keys(engine), by_keys(engine)

    def pair(drafts: Paths, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        seeds = rng.integers(2**62, size=drafts.batch)
        start = np.zeros_like(seeds)
        return by_engine(drafts, seeds, start), by_rule(drafts, seeds, start)

    return pair


def called_by_keys(engine: KeyedSampler) -> Keyed:
    """Return the engine's own verification by seeds and positions."""
    code = SamplerCode(engine.with_seeds, "torch")
    return lambda drafts, seeds, positions: code(drafts, (seeds, positions))


def by_keys(engine: KeyedSampler) -> Keyed:
    """Return the rule of an engine: its uniforms at the drafts' positions, then a race at the stop's."""
    rule = "block" if engine.block else "token"

    def verify(drafts: Paths, seeds: Integers, positions: Integers) -> Emissions:
        places = positions[:, None] + np.arange(drafts.draft_length)
        uniforms = engine.accept_uniforms(seeds[:, None], places).astype(np.float64)
        vocab = np.arange(drafts.vocab_size)

        def times_at(tau: Integers) -> Floats:
            uniforms = engine.race_uniforms(seeds[:, None], (positions + tau)[:, None], vocab)
            return -np.log1p(-uniforms.astype(np.float64))

        return by_noise(rule, drafts, uniforms, times_at, reads_draft=engine.reads_draft)

    return verify


def over_several_calls(engine: KeyedSampler, context: Context) -> CheckResult:
    """Judge completions of several calls under the engine's own keying, beside those of its rule.

    Where the rule's completions follow the law, enough of the engine's that are the same settle it; else
    others are sampled, and judged by themselves.
    """
    rng, end = context.stream("sampler/calls/keys"), clock.now() + context.budget
    by_engine, by_rule = called_by_keys(engine), by_keys(engine)
    law = reduce(np.outer, [TARGET] * TOKENS).reshape(-1)

    def on(what: str, verify: Keyed) -> Experiment:
        def completions(count: int) -> Integers:
            return _completions(verify, rng.integers(2**62, size=(count,)))

        return numbered(what, f"{TOKENS} tokens", law, completions)

    of_rule = at_looks(on("the rule", by_rule), context, context.rate, CALLS_RULE_COMPLETIONS, 1)
    alike = 0
    while of_rule.status is Status.PASSED and clock.now() < end:
        seeds = rng.integers(2**62, size=CALLS_KEYED_REQUESTS)
        if (_completions(by_engine, seeds) != _completions(by_rule, seeds)).any():
            break
        if (alike := alike + len(seeds)) >= rows_needed(CALLS_TV):
            detail = f"all {alike} completions of {TOKENS} tokens equal the rule's with the same keyed noise"
            power = f"detects a total variation of {CALLS_TV} with power {1 - DEFAULT_MISS}"
            return passed(f"{detail}; {power}", how=How.REPLAYED, alpha=context.rate, draws=alike)
    what = f"{TOKENS} tokens over several calls, noise keyed by seed and position"
    left = replace(context, budget=max(end - clock.now(), 0.0))
    return at_looks(on(what, by_engine), left, context.rate, CALLS_KEYED_REQUESTS, CALLS_KEYED_LOOKS)


def _completions(verify: Keyed, seeds: Integers) -> Integers:
    """Decode the first `TOKENS` tokens of requests with these seeds on the toy; return cells, int [B]."""
    found = np.full((len(seeds), TOKENS + DRAFTED + 1), -1)
    reached = np.zeros(len(seeds), dtype=np.int64)
    while (open_ := np.flatnonzero(reached < TOKENS)).size:
        emitted = verify(_toy_drafts(len(open_)), seeds[open_], reached[open_])
        for column in range(DRAFTED + 1):
            some = emitted.lengths > column
            rows = open_[some]
            found[rows, reached[rows] + column] = emitted.tokens[some, column]
        reached[open_] += emitted.lengths
    return found[:, :TOKENS] @ 2 ** np.arange(TOKENS)[::-1]


def _toy_drafts(batch: int) -> Paths:
    """Return the toy's drafts: token 0 everywhere, with certainty."""
    return Paths(
        np.zeros((batch, 1, DRAFTED), dtype=np.int64),
        np.broadcast_to(np.array([1.0, 0.0]), (batch, 1, DRAFTED, 2)),
        np.broadcast_to(TARGET, (batch, 1, DRAFTED + 1, 2)),
    )
