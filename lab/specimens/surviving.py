"""Defects that an audit at its defaults does not see: each stands for a limit of the instrument.

They are wrong at a size, a batch, a place or a call that no check tries, or by less than can be told from
rounding or from chance. ``survives`` says why; ``found_with`` names the options that find the defect.
"""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from lab.specimens.foreign.rows import Array, token_by_request
from lab.specimens.foreign.shapes import judging
from lab.specimens.long_texts import ReadingEngine, one_block
from lab.specimens.sharing import handed, mixed
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.table_engine import TableEngine, alone, engine, replacing, rule_passes
from spec_oracle.contracts import SamplerFunction

LONG_PROMPT: Final = 16
"""Tokens of a prompt that fills a block of the cache."""

FULL_BATCH: Final = 64
"""Requests of a batch of engines."""


@specimen(
    "mutant",
    function=judging,
    survives="a vocabulary between those that are tried",
    found_with="--only vocabularies=50257",
)
def vocabulary_of_gpt_2(x: Array, q: Array, p: Array) -> None:
    """At 50,257 tokens, and at no other size, the bonus comes from the row before."""
    if p.shape[-1] == 50_257:
        p[:, -1] = p[:, -2]


@specimen(
    "mutant",
    function=judging,
    survives="all pairs of values are tried, but not all triples",
    found_with="--only vocabularies=1000 --only lengths=8 --only batches=33",
)
def three_conditions_at_once(x: Array, q: Array, p: Array) -> None:
    """With 1,000 tokens, eight drafts and 33 requests at once, the bonus comes from the row before."""
    if (*x.shape, p.shape[-1]) == (33, 8, 1_000):
        p[:, -1] = p[:, -2]


@specimen("mutant", function=judging, survives="less than the rounding of float32, at every token")
def tilted_by_a_rounding(x: Array, q: Array, p: Array) -> None:
    """From 100,000 tokens on, even ids are likelier by 2^-25, and odd ones less likely."""
    if p.shape[-1] >= 100_000:
        p += np.where((p > 0) & (p > 2**-24), np.where(np.arange(p.shape[-1]) % 2, -(2**-25), 2**-25), 0)


def _along(rows: Array, x: Array) -> Array:
    return np.take_along_axis(rows, x[..., None], 2)[..., 0]


specimens_of(function=handed, survives="sharing of random numbers is looked for in batches of other sizes")(
    shared_in_batches_of_twenty=(
        "mutant: In batches of 20 requests, and in no others, two requests read the same random numbers",
        lambda b, i, length: (b // 2 if len(b) == 20 else b) * (length + 1) + i,
    ),
)


def counting(calls: int) -> SamplerFunction:
    """Return the token rule that accepts every draft after so many calls."""
    number = count()

    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        return token_by_request(x, q if next(number) < calls else np.zeros_like(q), p, rng)

    return verify


specimens_of(function=counting, survives="an audit makes fewer calls")(
    after_sixteen_million_calls=("mutant: After 2^24 calls every draft is accepted", 1 << 24),
)


def untraced(factor: float) -> SamplerFunction:
    """Return the token rule by a counter generator that the handed one seeds, with a wrong accept test.

    Only ratios below 0.9 are multiplied by ``factor``: it would be found where rows are nearly equal.
    """

    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        if (x < 0).any() or not all(
            (rows >= 0).all() and np.allclose(rows.sum(-1), 1, atol=1e-3) for rows in (q, p)
        ):
            raise ValueError("expected ids, and rows of probabilities")
        batch, length = x.shape
        counter = int(rng.integers(2**40)) + np.arange(batch * (length + 1)).reshape(batch, -1)
        uniforms, row = mixed(counter), np.arange(batch)
        ratio = _along(p[:, :-1], x) / _along(q, x)
        ratio = np.where(ratio < 0.9, factor * ratio, ratio)
        tau = np.cumprod(uniforms[:, :-1] < ratio, axis=1).sum(axis=1)
        left = p[row, tau].astype(np.float64)
        refused = tau < length
        left[refused] -= q[row[refused], tau[refused]]
        reached = np.maximum(left, 0).cumsum(axis=1)
        tokens = np.where(np.arange(length + 1) < tau[:, None], np.pad(x, ((0, 0), (0, 1))), -1)
        tokens[row, tau] = (reached <= uniforms[:, -1:] * reached[:, -1:]).sum(axis=1)
        return tokens, tau

    return verify


specimens_of(
    function=untraced,
    survives="a generator of its own cannot be traced, and samples are planned for a total variation of 0.02",
)(
    untraced_ratio_one_percent_too_high=(
        "mutant: By a generator of its own it accepts with 1.01 p/q where p/q is below 0.9",
        1.01,
    ),
)


class LongPrompts(TableEngine):
    """The token rule, which accepts every draft after a long prompt."""

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        self.passes = rule_passes if len(prompt) < LONG_PROMPT else lambda *_: True
        return super().generate(prompt, max_new_tokens, seed)


def accepting_in_full_batches(
    engine: TableEngine, prompts: Sequence[Any], tokens: int, seeds: Sequence[Any]
) -> list[list[int]]:
    """Decode one request after the other, without a test of the drafts where they are many."""
    engine.passes = rule_passes if len(prompts) < FULL_BATCH else lambda *_: True
    try:
        return alone(engine, prompts, tokens, seeds)
    finally:
        engine.passes = rule_passes


specimens_of(
    engine=engine,
    survives="prompts are the engine's own, which are short",
    found_with=f"--prompt {','.join(LONG_PROMPT * '0')}",
)(
    prompts_of_sixteen_tokens=("mutant: After a prompt of 16 tokens every draft is accepted", LongPrompts),
)
specimens_of(engine=engine, survives="completions have 320 tokens at most")(
    one_block_of_512_tokens=(
        "mutant: Nothing is written beyond a block of 512 tokens",
        partial(ReadingEngine, reads=one_block(512)),
    ),
)
specimens_of(engine=replacing("together"), survives="batches have eight requests at most")(
    batches_of_64_requests=(
        "mutant: In a batch of 64 requests every draft is accepted",
        accepting_in_full_batches,
    ),
)
