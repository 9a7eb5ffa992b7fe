"""Engines and samplers that are wrong in one corner only, by an ordinary amount, and their right twins.

A part says where: for an engine it sees the engine and the context of a token, for a sampler the `Mixed`
batch and the number of a request. There rows are off by a total variation of ``size``. A twin goes the same
way with a size of 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from lab.specimens.foreign.rows import Array
from lab.specimens.mixed import Mixed, mixing
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import Row, TableEngine, Uniform, engine
from spec_oracle.contracts import SamplerFunction

Part: TypeAlias = Callable[..., bool]

SIZE: Final = 0.2
"""Total variation of a spoiled row and of the right one, unless told otherwise."""


def off(rows: Array, size: float) -> Array:
    """Return rows [..., V] that are off by ``size``: the least likely of the possible tokens gains.

    A row with one possible token stays as it is.
    """
    possible = np.where(rows > 0, rows, 2.0)
    least = possible.min(axis=-1, keepdims=True)
    share = np.where(least < 1, np.minimum(size / np.where(least < 1, 1 - least, 1), 1), 0)
    gains = np.arange(rows.shape[-1]) == possible.argmin(axis=-1)[..., None]
    return ((1 - share) * rows + share * gains).astype(rows.dtype)


@dataclass
class CornerEngine(TableEngine):
    """The token rule on tables, with rows that are off by ``size`` where ``is_met``, given the context.

    It keeps what a corner is made of: how many requests are decoded ``beside`` each other, the seed, the
    length of the prompt, the number of the call, and the number of seeded generations so far.
    """

    is_met: Callable[["CornerEngine", Sequence[int]], bool] = lambda engine, context: False
    size: float = SIZE
    requests: int = 1
    seed: int | None = None
    start: int = 0
    call: int = 0
    seeded: int = 0

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        self.seed, self.start, self.call = seed, len(prompt), 0
        self.seeded += seed is not None
        return super().generate(prompt, max_new_tokens, seed)

    def generate_batch(
        self, prompts: Sequence[Any], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests together."""
        self.requests = len(prompts)
        try:
            return super().generate_batch(prompts, max_new_tokens, seeds)
        finally:
            self.requests = 1

    def verified(
        self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None
    ) -> list[int]:
        """Return what a call emits."""
        self.call += 1
        return super().verified(context, drafts, uniform, seed)

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        row = self.target(context)
        return off(np.array(row), self.size).tolist() if self.is_met(self, context) else row


def engine_of(is_met: Part, size: float = SIZE) -> Any:
    """Return what makes the engine that is off by ``size`` where ``is_met(engine, context)``."""
    return engine(partial(CornerEngine, is_met=is_met, size=size))


def rows_of(is_met: Part, size: float = SIZE) -> Callable[[Mixed, int], Array]:
    """Return what gives the rows of a request, off by ``size`` where ``is_met(batch, request)``.

    Greedy requests are right everywhere.
    """

    def rows(batch: Mixed, b: int) -> Array:
        """Return the rows of a request."""
        is_off = not batch.is_greedy[b] and is_met(batch, b)
        return off(batch.rows(b), size) if is_off else batch.rows(b)

    return rows


def sampler_of(is_met: Part, size: float = SIZE) -> SamplerFunction:
    """Return the sampler by these rows."""
    return mixing(rows_of(is_met, size))


ENGINES: Final[Mapping[str, tuple[str, str, Part]]] = MappingProxyType(
    {
        "seeded_from_the_third_token": (
            "calls",
            "in a seeded request, from its third token on",
            lambda engine, context: engine.seed is not None and len(context) - engine.start >= 2,
        ),
        "five_together": (
            "batch",
            "in all requests of a batch of five",
            lambda engine, context: engine.requests == 5,
        ),
        "every_64th_token_of_a_completion": (
            "long-texts",
            "at every 64th token, counted from the end of the prompt",
            lambda engine, context: (len(context) - engine.start) % 64 == 63,
        ),
        "second_call_of_a_seeded_request": (
            "joint",
            "in the second call of a seeded request",
            lambda engine, context: engine.seed is not None and engine.call == 2,
        ),
        "second_seeded_generation": (
            "calls",
            "in the second seeded generation of an engine, and in no other",
            lambda engine, context: engine.seed is not None and engine.seeded == 2,
        ),
    }
)
"""By name: the check that is to find it, where it is wrong in words, and in code."""

SAMPLERS: Final[Mapping[str, tuple[str, str, Part]]] = MappingProxyType(
    {
        "batch_of_five": (
            "batch",
            "in all requests of a batch of five",
            lambda batch, b: len(batch.target) == 5,
        ),
        "ragged_batch_from_five_tokens": (
            "shapes",
            "in a batch of drafts of several lengths, at five tokens of the vocabulary or more",
            lambda batch, b: batch.target.shape[2] >= 5 and len({*batch.lengths.tolist()}) > 1,
        ),
        "beside_a_greedy_request": (
            "shapes",
            "in a sampled request beside a greedy one",
            lambda batch, b: bool(batch.is_greedy.any()),
        ),
    }
)
"""The same for samplers."""

SIZES: Final = MappingProxyType({"beside_a_greedy_request": 0.1})
"""Total variations other than `SIZE`."""


def _register(kind: str, lift: Callable[..., Any], parts: Mapping[str, tuple[str, str, Part]]) -> None:
    """Register every defect and its twin."""
    for name, (check, where, part) in parts.items():
        size = SIZES.get(name, SIZE)
        said = f"mutant: Rows are off by {size} {where}"
        specimens_of(check, **{kind: partial(lift, size=size)})(**{f"corner_{name}": (said, part)})
        right = {kind: partial(lift, size=0.0), "declared": "token" if kind == "function" else None}
        said = f"control: Right rows by a path of their own {where}"
        specimens_of(**right)(**{f"corner_{name}_right": (said, part)})


_register("engine", engine_of, ENGINES)
_register("function", sampler_of, SAMPLERS)
