"""A correct decoding system on toy models, made of parts; each faulty system replaces one of them.

Noise is keyed by (seed, call, use, position), as engines do: a request's text depends on its own seed only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.systems.contract import Step
from spec_oracle.toy import Instance
from spec_oracle.toy.contexts import after_tokens, child, rows_by_context

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

DEPTH = 8
"""Contexts of up to that many tokens have rows of their own; checks never decode farther."""


class Use(IntEnum):
    """What noise is for; every use has a stream of its own."""

    DRAFT = 0
    ACCEPT = 1
    CORRECT = 2


@dataclass(frozen=True)
class Call:
    """What the verification of B requests is handed.

    ``tokens`` int [B, L], ``draft`` [B, L, V], ``target`` [B, L+1, V]; ``accept`` [B, L] and ``correct``
    [B, L+1, V] uniforms.
    """

    tokens: Ints
    draft: Floats
    target: Floats
    accept: Floats
    correct: Floats


@dataclass(frozen=True)
class Progress:
    """Where a batch stands: numbers of the contexts that target and drafter see, int [B] each."""

    target: Ints
    draft: Ints


Seeding: TypeAlias = Callable[[Sequence[int | None], np.random.Generator], Ints]
Noise: TypeAlias = Callable[[Ints, int, Use, tuple[int, int]], Floats]
Propose: TypeAlias = Callable[[Floats, Floats], tuple[Ints, Floats]]
"""(q rows [B, V], uniforms [B, V]) -> (tokens [B], reported rows [B, V])."""
TargetRows: TypeAlias = Callable[[Floats, Ints], Floats]
"""(plain rows of all contexts [N, V], contexts [B, L+1]) -> rows [B, L+1, V]."""
Verify: TypeAlias = Callable[[Call], tuple[Ints, Ints]]
Advance: TypeAlias = Callable[[Progress, Ints, Ints, int], Progress]
"""(progress, drafts [B, L], emitted [B, L+1], V) -> progress."""


@dataclass(frozen=True)
class Limits:
    """Where texts end; see `spec_oracle.systems.contract.System`."""

    stop_token: int | None = None
    max_tokens: int | None = None


Finish: TypeAlias = Callable[[Ints, Ints, Ints, Limits], tuple[Ints, Ints]]
"""(emitted [B, L+1], accepted [B], tokens before [B], limits) -> (emitted, accepted)."""
Build: TypeAlias = Callable[[Instance, int], "ToySystem"]


# The correct parts.


def own_seeds(requested: Sequence[int | None], entropy: np.random.Generator) -> Ints:
    """Return the seed of every request: the one it asks for, or one from the process's entropy."""
    fresh = entropy.integers(2**62, size=len(requested))
    return np.array([fresh[i] if seed is None else seed for i, seed in enumerate(requested)], dtype=np.int64)


def keyed_noise(seeds: Ints, call: int, use: Use, shape: tuple[int, int]) -> Floats:
    """Return uniforms in (0, 1), [B, *shape]: a mixing function of (seed, call, use, element).

    The mixer is the finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014), applied after each part of
    the key.
    """
    element = np.arange(shape[0] * shape[1], dtype=np.uint64)
    key = _mixed(seeds.astype(np.uint64))[:, None]
    key = _mixed(key + np.uint64(1 + 4 * call + use))
    bits = _mixed(key + element) >> np.uint64(11)
    return np.asarray((bits + 0.5) * 2.0**-53, dtype=np.float64).reshape(len(seeds), *shape)


def _mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    key = (key + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(key ^ (key >> np.uint64(31)), dtype=np.uint64)


def race(weights: Floats, uniforms: Floats) -> Ints:
    """Draw an index of weights [..., V] by an exponential race."""
    clocks = np.where(weights > 0, -np.log(uniforms) / np.where(weights > 0, weights, 1.0), np.inf)
    return np.asarray(np.argmin(clocks, axis=-1), dtype=np.int64)


def sampled_proposal(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Draw drafts from q and report q."""
    return race(rows, uniforms), rows


def plain_rows(rows: Floats, contexts: Ints) -> Floats:
    """Verify against the rows of plain decoding."""
    return rows[contexts]


def along(rows: Floats, tokens: Ints) -> Floats:
    """Return the probability of every draft, [B, L]."""
    return np.asarray(np.take_along_axis(rows[:, : tokens.shape[1]], tokens[:, :, None], axis=2)[:, :, 0])


def accepted_prefix(passed: NDArray[np.bool_]) -> Ints:
    """Return how many leading drafts passed, int [B] from bool [B, L]."""
    return np.asarray(np.cumprod(passed, axis=1).sum(axis=1), dtype=np.int64)


def residuals(target: Floats, draft: Floats) -> Floats:
    """Return (p - q)+ at the drafts (p where nothing is left) and p at the bonus, [B, L+1, V]."""
    left = np.maximum(target[:, :-1] - draft, 0)
    left = np.where(left.sum(axis=-1, keepdims=True) > 0, left, target[:, :-1])
    return np.concatenate([left, target[:, -1:]], axis=1)


def emission(tokens: Ints, accepted: Ints, correction: Ints) -> Ints:
    """Return the accepted prefix and the correction, int [B, L+1], padded with -1."""
    position = np.arange(tokens.shape[1] + 1)
    padded = np.concatenate([tokens, np.full((len(tokens), 1), -1)], axis=1)
    tail = np.where(position == accepted[:, None], correction[:, None], -1)
    return np.where(position < accepted[:, None], padded, tail)


def token_rule(call: Call) -> tuple[Ints, Ints]:
    """Verify by the token rule (arXiv 2211.17192, algorithm 1)."""
    accepted = accepted_prefix(call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens))
    request = np.arange(len(accepted))
    weights = residuals(call.target, call.draft)[request, accepted]
    return emission(call.tokens, accepted, race(weights, call.correct[request, accepted])), accepted


def follow_text(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """Let both models see the text."""
    return Progress(
        after_tokens(progress.target, emitted, vocab), after_tokens(progress.draft, emitted, vocab)
    )


def trimmed(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    """Cut what follows a stop token or exceeds the budget; the accepted length shrinks along."""
    position = np.arange(emitted.shape[1])
    keep = np.ones(emitted.shape, dtype=bool)
    if limits.stop_token is not None:
        stopped = np.cumsum(emitted == limits.stop_token, axis=1)
        keep &= (stopped == 0) | ((stopped == 1) & (emitted == limits.stop_token))
    if limits.max_tokens is not None:
        keep &= position + before[:, None] < limits.max_tokens
    kept = np.where(keep, emitted, -1)
    return kept, np.minimum(accepted, (kept >= 0).sum(axis=1))


@dataclass(frozen=True)
class ToySystem:
    """A system on toy models; see `spec_oracle.systems.contract.System`."""

    instance: Instance
    entropy: np.random.Generator
    rule: str | None = "token"
    limits: Limits = Limits()
    seeding: Seeding = own_seeds
    noise: Noise = keyed_noise
    propose: Propose = sampled_proposal
    target_rows: TargetRows = plain_rows
    verify: Verify = token_rule
    advance: Advance = follow_text
    finish: Finish = trimmed

    @property
    def stop_token(self) -> int | None:
        """The token that ends a text."""
        return self.limits.stop_token

    @property
    def max_tokens(self) -> int | None:
        """The number of tokens at which a text ends."""
        return self.limits.max_tokens

    def start(self, seeds: Sequence[int | None]) -> "ToySession":
        """Begin one request for each of ``seeds``."""
        return ToySession(self, self.seeding(seeds, self.entropy))


@dataclass
class ToySession:
    """Requests of a toy system that are decoded together."""

    system: ToySystem
    seeds: Ints
    calls: int = 0
    progress: Progress = field(init=False)
    lengths: Ints = field(init=False)
    ended: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        root = np.zeros(len(self.seeds), dtype=np.int64)
        self.progress, self.lengths, self.ended = Progress(root, root), root, root > 0
        self._target = rows_by_context(self.system.instance.target, DEPTH)
        self._draft = rows_by_context(self.system.instance.draft, DEPTH)

    def step(self) -> Step:
        """Draft and verify once for every request."""
        system, length = self.system, self.system.instance.draft_length
        vocab = system.instance.vocab_size
        tokens, draft = self._drafts(length, vocab)
        contexts = np.stack(
            [after_tokens(self.progress.target, tokens[:, :i], vocab) for i in range(length + 1)], axis=1
        )
        accept = self._noise(Use.ACCEPT)[:, :length, 0]
        call = Call(
            tokens, draft, system.target_rows(self._target, contexts), accept, self._noise(Use.CORRECT)
        )
        emitted, accepted = system.finish(*system.verify(call), self.lengths, system.limits)
        emitted = np.where(self.ended[:, None], -1, emitted)
        accepted = np.where(self.ended, -1, accepted)
        self._take_over(tokens, emitted, vocab)
        return Step(tokens, draft, emitted, accepted)

    def _drafts(self, length: int, vocab: int) -> tuple[Ints, Floats]:
        uniforms = self._noise(Use.DRAFT)
        context, tokens, rows = self.progress.draft, [], []
        for position in range(length):
            token, reported = self.system.propose(self._draft[context], uniforms[:, position])
            context = child(context, token, vocab)
            tokens.append(token)
            rows.append(reported)
        return np.stack(tokens, axis=1), np.stack(rows, axis=1)

    def _noise(self, use: Use) -> Floats:
        shape = (self.system.instance.draft_length + 1, self.system.instance.vocab_size)
        return self.system.noise(self.seeds, self.calls, use, shape)

    def _take_over(self, drafts: Ints, emitted: Ints, vocab: int) -> None:
        limits = self.system.limits
        self.progress = self.system.advance(self.progress, drafts, emitted, vocab)
        self.lengths = self.lengths + (emitted >= 0).sum(axis=1)
        self.calls += 1
        if limits.stop_token is not None:
            self.ended |= (emitted == limits.stop_token).any(axis=1)
        if limits.max_tokens is not None:
            self.ended |= self.lengths >= limits.max_tokens


def toy_system(instance: Instance, entropy: int, **parts: Any) -> ToySystem:
    """Return the correct system, with some parts replaced."""
    return ToySystem(instance, np.random.default_rng(entropy), **parts)


def replacing(name: str, **parts: Any) -> Callable[[Any], Build]:
    """Return what makes of a part the system that has it as ``name``; see `ToySystem` for the names."""
    return lambda part: lambda instance, entropy: toy_system(instance, entropy, **{name: part}, **parts)
