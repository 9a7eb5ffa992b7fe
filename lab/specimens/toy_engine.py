"""A correct engine on toy models, made of parts; each faulty engine replaces one of them.

Noise is keyed by (seed, call, use, position), as engines do: a completion depends on its own seed only. The
first token of a prompt stands for the start of the text. It keeps the engine contract, and decodes thousands
of requests at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.specimens.contexts import after_tokens, child, first_of_depth, rows_by_context
from spec_oracle.audit.instances import panel
from spec_oracle.contracts.engine import Step
from spec_oracle.toy import Instance

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

INSTANCES = ("flat", "good-draft", "reversed", "zeros")
"""The instances of an audit that engines serve, each of three tokens and drafts of two."""

DEPTH = 8
"""Contexts of up to that many tokens have rows of their own; of longer ones the last tokens count."""


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


Seeding: TypeAlias = Callable[[Sequence[int | None]], Ints]
Noise: TypeAlias = Callable[[Ints, int, Use, tuple[int, int]], Floats]
Propose: TypeAlias = Callable[[Floats, Floats], tuple[Ints, Floats]]
"""(q rows [B, V], uniforms [B, V]) -> (tokens [B], reported rows [B, V])."""
TargetRows: TypeAlias = Callable[[Floats, Ints], Floats]
"""(rows of target-only decoding by context [N, V], contexts [B, L+1]) -> rows [B, L+1, V]."""
Verify: TypeAlias = Callable[[Call], tuple[Ints, Ints]]
Advance: TypeAlias = Callable[[Progress, Ints, Ints, int], Progress]
"""(progress, drafts [B, L], emitted [B, L+1], V) -> progress."""


@dataclass(frozen=True)
class Limits:
    """Where completions end: after a stop token, and after ``max_tokens`` tokens."""

    stop_token: int | None
    max_tokens: int


Finish: TypeAlias = Callable[[Ints, Ints, Ints, Limits], tuple[Ints, Ints]]
"""(emitted [B, L+1], accepted [B], tokens before [B], limits) -> (emitted, accepted)."""
Build: TypeAlias = Callable[[Instance], "ToyEngine"]


# The correct parts.


def own_seeds(requested: Sequence[int | None]) -> Ints:
    """Return the seed of every request: the one it asks for, or one of numpy's global stream."""
    fresh = np.random.randint(2**62, size=len(requested))  # noqa: NPY002  # what audits seed
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
    """Verify against the rows of target-only decoding."""
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
    """Let both models see what was emitted."""
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
    keep &= position + before[:, None] < limits.max_tokens
    kept = np.where(keep, emitted, -1)
    return kept, np.minimum(accepted, (kept >= 0).sum(axis=1))


@dataclass
class ToyEngine:
    """An engine on the models of an instance; see `spec_oracle.contracts.engine` for its methods."""

    instance: Instance
    batch_invariant: ClassVar[bool] = True
    rule: str | None = "token"
    stop_token: int | None = None
    seeding: Seeding = own_seeds
    noise: Noise = keyed_noise
    propose: Propose = sampled_proposal
    target_rows: TargetRows = plain_rows
    verify: Verify = token_rule
    advance: Advance = follow_text
    finish: Finish = trimmed
    drafted: int = field(default=0, init=False)
    accepted: int = field(default=0, init=False)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return self.instance.vocab_size

    @property
    def draft_length(self) -> int:
        """Tokens of every draft."""
        return self.instance.draft_length

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """The token that ends a completion."""
        return () if self.stop_token is None else (self.stop_token,)

    def next_token_probs(self, context: Sequence[int]) -> Floats:
        """Return the row of target-only decoding."""
        row: Floats = rows_by_context(self.instance.target, DEPTH)[self._contexts([context])[0]]
        return row

    def draft_probs(self, context: Sequence[int]) -> Floats:
        """Return the row that the drafter is meant to have."""
        row: Floats = rows_by_context(self.instance.draft, DEPTH)[self._contexts([context])[0]]
        return row

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        session = self.start(prompt, max_new_tokens, seed)
        while not session.ended.all():
            session.step()
        return session.tokens[0]

    def start(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> "ToySession":
        """Begin one request."""
        return self.start_many([prompt], max_new_tokens, [seed])

    def start_many(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> "ToySession":
        """Begin a request for each prompt and seed."""
        self.drafted = self.accepted = 0
        limits = Limits(self.stop_token, max_new_tokens)
        return ToySession(self, self.seeding(seeds), self._contexts(prompts), limits)

    def _contexts(self, prompts: Sequence[Sequence[int]]) -> Ints:
        number = {}
        for prompt in set(map(tuple, prompts)):
            tokens = np.array([prompt[1:][-DEPTH:]], dtype=np.int64)
            number[prompt] = int(
                last_tokens(after_tokens(np.zeros(1, np.int64), tokens, self.vocab_size), self.vocab_size)[0]
            )
        return np.array([number[tuple(prompt)] for prompt in prompts])


def last_tokens(contexts: Ints, vocab: int) -> Ints:
    """Return the contexts of the last `DEPTH` tokens."""
    for depth in range(DEPTH + 1, 40):
        first = first_of_depth(vocab, depth)
        if not (contexts >= first).any():
            break
        is_here = (contexts >= first) & (contexts < first_of_depth(vocab, depth + 1))
        cut = (contexts - first) % vocab**DEPTH + first_of_depth(vocab, DEPTH)
        contexts = np.where(is_here, cut, contexts)
    return contexts


@dataclass
class ToySession:
    """Requests of a toy engine that are decoded together."""

    engine: ToyEngine
    seeds: Ints
    contexts: Ints
    limits: Limits
    calls: int = 0
    progress: Progress = field(init=False)
    lengths: Ints = field(init=False)
    ended: NDArray[np.bool_] = field(init=False)
    emitted: list[Ints] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.progress = Progress(self.contexts, self.contexts)
        self.lengths = np.zeros(len(self.seeds), dtype=np.int64)
        self.ended = self.lengths > 0
        self._target = rows_by_context(self.engine.instance.target, DEPTH)
        self._draft = rows_by_context(self.engine.instance.draft, DEPTH)

    @property
    def tokens(self) -> list[list[int]]:
        """What every request emitted so far."""
        return [
            [token for token in row if token >= 0] for row in np.concatenate(self.emitted, axis=1).tolist()
        ]

    def step(self) -> Step:
        """Draft and verify once for every request."""
        engine, length, vocab = self.engine, self.engine.draft_length, self.engine.vocab_size
        tokens, draft = self._drafts(length, vocab)
        contexts = np.stack(
            [after_tokens(self.progress.target, tokens[:, :i], vocab) for i in range(length + 1)], axis=1
        )
        target = engine.target_rows(self._target, last_tokens(contexts, vocab))
        accept = self._noise(Use.ACCEPT)[:, :length, 0]
        call = Call(tokens, draft, target, accept, self._noise(Use.CORRECT))
        emitted, accepted = engine.finish(*engine.verify(call), self.lengths, self.limits)
        emitted = np.where(self.ended[:, None], -1, emitted)
        accepted = np.where(self.ended, -1, accepted)
        engine.drafted += length * int((~self.ended).sum())
        engine.accepted += int(accepted[~self.ended].sum())
        self._take_over(tokens, emitted, vocab)
        return Step(tokens, draft, emitted, accepted)

    def _drafts(self, length: int, vocab: int) -> tuple[Ints, Floats]:
        uniforms = self._noise(Use.DRAFT)
        context, tokens, rows = self.progress.draft, [], []
        for position in range(length):
            token, reported = self.engine.propose(
                self._draft[last_tokens(context, vocab)], uniforms[:, position]
            )
            context = child(context, token, vocab)
            tokens.append(token)
            rows.append(reported)
        return np.stack(tokens, axis=1), np.stack(rows, axis=1)

    def _noise(self, use: Use) -> Floats:
        shape = (self.engine.draft_length + 1, self.engine.vocab_size)
        return self.engine.noise(self.seeds, self.calls, use, shape)

    def _take_over(self, drafts: Ints, emitted: Ints, vocab: int) -> None:
        after = self.engine.advance(self.progress, drafts, emitted, vocab)
        self.progress = Progress(last_tokens(after.target, vocab), last_tokens(after.draft, vocab))
        self.emitted.append(emitted)
        self.lengths = self.lengths + (emitted >= 0).sum(axis=1)
        self.calls += 1
        self.ended = self.ended | (self.lengths >= self.limits.max_tokens)
        if self.limits.stop_token is not None:
            self.ended |= (emitted == self.limits.stop_token).any(axis=1)


Engines: TypeAlias = Callable[[], Mapping[str, ToyEngine]]
"""Makes engines by name: one for each of `INSTANCES`."""


def on_toys(build: Build) -> Engines:
    """Return what makes the engine that serves each of the instances."""
    return partial(_built, build)


def _built(build: Build) -> Mapping[str, ToyEngine]:
    toys = panel(3, 2, 1, 0)
    return {name: build(toys[name].floats) for name in INSTANCES}


def replacing(name: str, **parts: Any) -> Callable[[Any], Engines]:
    """Return what makes of a part the engines that have it as ``name``; see `ToyEngine` for the names."""
    return lambda part: on_toys(partial(ToyEngine, **{name: part}, **parts))
