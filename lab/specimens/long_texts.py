"""Engines that are right for dozens of tokens: then state drifts, a cache ends, a counter wraps around."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import Row, TableEngine, Uniform, engine

DRIFT = 200
"""Tokens after which a defect that grows is as large as what it spoils."""


@dataclass
class ReadingEngine(TableEngine):
    """The token rule, with a target that reads what ``reads`` makes of a context; the cache in miniature."""

    reads: Callable[[Sequence[int]], Sequence[int]] = lambda context: context

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        return self.target(self.reads(context))


class AcceptsMore(TableEngine):
    """The ratio of its accept test grows with the text."""

    def verified(
        self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None
    ) -> list[int]:
        """Return what a call emits."""
        shrunk = 1 / (1 + len(context) / DRIFT)
        self.passes = lambda u, p, q, _: bool(u * shrunk * q < p)
        return super().verified(context, drafts, uniform, seed)


def one_block(size: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return what reads a cache of one block of so many tokens."""
    return lambda context: context[:size]


def by_blocks(context: Sequence[int], size: int = 64) -> list[int]:
    """Return a context by way of blocks."""
    blocks = [context[start : start + size] for start in range(0, len(context), size)]
    return [token for block in blocks for token in block]


def _reading(reads: Callable[[Sequence[int]], Sequence[int]]) -> Any:
    return engine(partial(ReadingEngine, reads=reads))


specimens_of("long-texts", engine=_reading)(
    one_block_of_8_tokens=("E16: Nothing is written beyond a block of 8 tokens", one_block(8)),
    one_block_of_16_tokens=("E16: Nothing is written beyond a block of 16 tokens", one_block(16)),
    one_block_of_64_tokens=("E16: Nothing is written beyond a block of 64 tokens", one_block(64)),
)
specimens_of("long-texts", engine=engine)(
    acceptance_drifts=("E17: The ratio of the accept test grows by a two-hundredth every token", AcceptsMore),
)
specimens_of(engine=_reading)(
    blocks_of_64_tokens=("control: The cache has blocks of 64 tokens", by_blocks),
    window_of_two_tokens=(
        "control: The cache keeps what the model reads, two tokens",
        lambda all_: all_[-2:],
    ),
)
