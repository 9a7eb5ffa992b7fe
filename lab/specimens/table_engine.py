"""A small speculative engine on tables of rows, in parts: specimens of engines replace one of them."""

import hashlib
import itertools
import os
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

VOCAB = 3
Row: TypeAlias = list[float]
Rows: TypeAlias = Callable[[Sequence[int]], Row]
Uniform: TypeAlias = Callable[[], Any]
"""Returns the next uniform of a request."""

Source: TypeAlias = Callable[[int | None], Uniform]
"""Begins a request, with its seed or without one."""

BYTES = 7


def table(seed: int, power: float = 1.0) -> Rows:
    """Return rows by the last two tokens; the higher the power, the nearer they are to point masses."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    found: dict[tuple[int, ...], Row] = {}
    for length in range(3):
        for context in itertools.product(range(VOCAB), repeat=length):
            weights = [(chance.random() + 0.05) ** power for _ in range(VOCAB)]
            found[context] = [weight / sum(weights) for weight in weights]
    return lambda context: found[tuple(context[-2:])]


def peaked(context: Sequence[int], most: float = 0.985) -> Row:
    """Return a row with one token of a probability of 0.985, unless told otherwise."""
    likely = (sum(context[-2:]) + 1) % VOCAB
    return [most if token == likely else (1 - most) / 2 for token in range(VOCAB)]


TARGET, DRAFT = table(1), table(2)


# Sources of uniforms.


def from_random(seed: int | None) -> Uniform:
    """Draw from the module `random`, seeded where the request is."""
    if seed is not None:
        random.seed(seed)
    return random.random


def as_uniform(octets: bytes) -> float:
    """Return a number in [0, 1) made of `BYTES` bytes."""
    return (int.from_bytes(octets) >> (8 * BYTES - 53)) / 2.0**53


def from_hash(seed: int | None) -> Uniform:
    """Hash the seed and a counter; without a seed, draw from the module `random`."""
    if seed is None:
        return random.random
    counter = itertools.count()
    return lambda: as_uniform(hashlib.sha256(f"{seed}/{next(counter)}".encode()).digest()[:BYTES])


def from_system(seed: int | None) -> Uniform:
    """Draw from the operating system's entropy; a seeded request hashes its seed."""
    return (lambda: as_uniform(os.urandom(BYTES))) if seed is None else from_hash(seed)


def from_secrets(seed: int | None) -> Uniform:
    """Draw as `secrets` does; a seeded request hashes its seed."""
    return (lambda: secrets.randbits(53) / 2.0**53) if seed is None else from_hash(seed)


# Parts of an engine.


def rule_passes(uniform: Any, p: float, q: float, seed: int | None) -> bool:
    """Accept with probability min(1, p / q)."""
    del seed
    return bool(uniform * q < p)


def inverted(row: Row, uniform: Any, seed: int | None) -> int:
    """Draw a token by the inverse of the distribution function."""
    del seed
    reached, last = 0.0, 0
    for token, mass in enumerate(row):
        if mass > 0:
            reached, last = reached + mass, token
            if uniform < reached:
                return token
    return last


def alone(
    engine: "TableEngine", prompts: Sequence[Any], tokens: int, seeds: Sequence[Any]
) -> list[list[int]]:
    """Decode one request after the other."""
    return [engine.generate(prompt, tokens, seed) for prompt, seed in zip(prompts, seeds, strict=True)]


@dataclass
class TableEngine:
    """The token rule on tables of rows; each faulty engine replaces a part."""

    target: Rows = TARGET
    draft: Rows = DRAFT
    source: Source = from_random
    drafting_source: Source | None = None
    passes: Callable[[Any, float, float, int | None], bool] = rule_passes
    choose: Callable[[Row, Any, int | None], int] = inverted
    together: Callable[..., list[list[int]]] = alone
    draft_length: int = 2
    draft_lengths: tuple[int, ...] = ()
    drafted: int = field(default=0, init=False)
    accepted: int = field(default=0, init=False)
    prompts = ((0,), (1, 2))
    vocab_size = VOCAB

    def next_token_probs(self, context: Sequence[int]) -> Row:
        """Return the row of plain decoding."""
        return self.target(context)

    def draft_probs(self, context: Sequence[int]) -> Row:
        """Return the row that the drafter is meant to have."""
        return self.draft(context)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        self.drafted = self.accepted = 0
        uniform = self.source(seed)
        drafting = uniform if self.drafting_source is None else self.drafting_source(seed)
        text: list[int] = []
        while len(text) < max_new_tokens:
            context, drafts = [*prompt, *text], list[int]()
            for _ in range(min(self.draft_length, max_new_tokens - len(text) - 1)):
                drafts.append(self.choose(self.draft([*context, *drafts]), drafting(), seed))
            text += self.verified(context, drafts, uniform, seed)
        return text

    def verified(
        self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None
    ) -> list[int]:
        """Return what a call emits."""
        self.drafted += len(drafts)
        for number, token in enumerate(drafts):
            after = [*context, *drafts[:number]]
            p, q = self.verifying(after), self.draft(after)
            if not self.passes(uniform(), p[token], q[token], seed):
                left = [max(one - other, 0.0) for one, other in zip(p, q, strict=True)]
                residual = [mass / sum(left) for mass in left]
                return [*drafts[:number], self.choose(residual, uniform(), seed)]
            self.accepted += 1
        return [*drafts, self.choose(self.verifying([*context, *drafts]), uniform(), seed)]

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        return self.target(context)

    def generate_batch(
        self, prompts: Sequence[Any], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests together."""
        return self.together(self, prompts, max_new_tokens, seeds)


def _one(made: Callable[[], Any]) -> Mapping[str, Any]:
    return {"": made()}


def replacing(name: str, **others: Any) -> Callable[[Any], Any]:
    """Return what makes of a part the engine that has it as ``name``; ``others`` are further parts."""
    return lambda part: partial(_one, partial(TableEngine, **{name: part}, **others))


def engine(part: Callable[[], Any]) -> Any:
    """Return what makes of a function the engine that it returns."""
    return partial(_one, part)
