"""Engines whose noise is a hash of (request seed, absolute position): row by row, and over several calls.

One call: the hashes are computed again here, so the engine must emit what the rule emits with that noise.

Several calls: a text keeps its seed, and every call continues where the text ends, so that a position that
was drafted but not reached comes up again with the same noise. Texts of the rule with that noise are cheap,
and few of the engine's settle that they are the same. The toy is the one on which reuse tells most per row of
an interpreted kernel: two tokens, a drafter that always proposes the first one, and a target that has it with
probability 0.7.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.samplers import KeyedEngine
from spec_oracle.adapters.samplers.keyed_noise import murmur_uniform, philox_uniform
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Findings, Pair
from spec_oracle.audit.sampler.coins import by_race
from spec_oracle.audit.sampler.row_by_row import called_with, paired_findings
from spec_oracle.contracts import Emissions
from verifiers import Drafts

Verify: TypeAlias = Callable[[Drafts, NDArray[np.int64], NDArray[np.int64]], Emissions]
"""Verifies drafts of requests with these seeds, [B], whose texts have so many tokens, [B]."""

TOKENS = 4
"""Tokens of a text whose law `calls` checks: two calls or more."""

_LENGTH = 2
TARGET = np.array([0.7, 0.3])


def keyed(engine: KeyedEngine, context: Context, alpha: float) -> Findings:
    """Compare an engine with its rule, decided by the same hashes."""
    return paired_findings(pair_by_keys(engine), context, alpha)


def pair_by_keys(engine: KeyedEngine) -> Pair:
    """Return the pair of an engine and its rule, decided by the same hashes."""
    by_engine, by_rule = verified_by(engine), expected_of(engine)

    def pair(drafts: Drafts, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        seeds = rng.integers(2**62, size=drafts.batch)
        start = np.zeros_like(seeds)
        return by_engine(drafts, seeds, start), by_rule(drafts, seeds, start)

    return pair


def verified_by(engine: KeyedEngine) -> Verify:
    """Return the engine's verification."""
    return lambda drafts, seeds, positions: called_with(engine.with_seeds, drafts, seeds, positions)


def expected_of(engine: KeyedEngine) -> Verify:
    """Return that of its rule: Philox's coins at the drafts' positions, then a race at the stop's."""
    rule = "block" if engine.block else "token"

    def expected(drafts: Drafts, seeds: NDArray[np.int64], positions: NDArray[np.int64]) -> Emissions:
        places = positions[:, None] + np.arange(drafts.draft_length)
        coins = philox_uniform(seeds[:, None], places).astype(np.float64)
        vocab = np.arange(drafts.vocab_size)

        def times_at(tau: NDArray[np.int64]) -> NDArray[np.float64]:
            return -np.log1p(-murmur_uniform(seeds[:, None], (positions + tau)[:, None], vocab))

        return by_race(rule, drafts, coins, times_at, reads_draft=engine.reads_draft)

    return expected


def law_of_texts() -> NDArray[np.float64]:
    """Return the law of `TOKENS` tokens on the toy, flat."""
    law = TARGET
    for _ in range(TOKENS - 1):
        law = np.outer(law, TARGET).reshape(-1)
    return law


def decoded_texts(verify: Verify, seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decode the first `TOKENS` tokens of requests with these seeds on the toy; return cells, int [B]."""
    texts = np.full((len(seeds), TOKENS + _LENGTH + 1), -1)
    reached = np.zeros(len(seeds), dtype=np.int64)
    while (open_ := np.flatnonzero(reached < TOKENS)).size:
        emitted = verify(_drafts(len(open_)), seeds[open_], reached[open_])
        for column in range(_LENGTH + 1):
            some = emitted.lengths > column
            rows = open_[some]
            texts[rows, reached[rows] + column] = emitted.tokens[some, column]
        reached[open_] += emitted.lengths
    return texts[:, :TOKENS] @ 2 ** np.arange(TOKENS)[::-1]


def _drafts(batch: int) -> Drafts:
    """Return the toy's drafts: token 0 everywhere, with certainty."""
    return Drafts(
        np.zeros((batch, 1, _LENGTH), dtype=np.int64),
        np.broadcast_to(np.array([1.0, 0.0]), (batch, 1, _LENGTH, 2)),
        np.broadcast_to(TARGET, (batch, 1, _LENGTH + 1, 2)),
    )
