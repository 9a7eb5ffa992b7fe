"""Samples at full vocabularies and long drafts, of code whose random numbers cannot be traced.

Of 131,072 tokens none is seen twice, so tokens are counted by cells that share what verification gets wrong:
whether the target or the draft gives them more (in the order of p/q a defect shows nearly all of its total
variation, see docs/theory.md), whether they are likely, and, where tokens are many, in which half of the
vocabulary they are, at an even or an odd id. All cells are equally likely, at every position, so that tokens
of all positions, continued by the target, are samples of one distribution.

Drafts are of two kinds: weak ones, refused at one of the first two positions as a rule, and good ones, which
reach the last position and the bonus. Code with optional arguments also gets *mixed* batches of short drafts,
greedy requests, and requests with generators of their own.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, stream
from spec_oracle.audit.results import CheckResult, How, Status, check_result, inconclusive, passed
from spec_oracle.audit.sampler.batch import options_of
from spec_oracle.audit.sampler.one_call import Options, require_possible
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import affordable
from spec_oracle.audit.sampling import judge_samples
from spec_oracle.audit.shapes.axes import OPTIONS, Shape
from spec_oracle.contracts import SamplerCode
from spec_oracle.contracts.sampler import NO_OPTIONS, new_generator, parameters_of
from spec_oracle.statistics import (
    draws_needed_by_g,
    smallest_detectable_tv_by_g,
    split,
    total_variation_interval,
)
from verifiers import Paths

# TV of a token that samples must detect at full vocabularies where code cannot be traced.
LARGE_TV: Final = 0.17
LARGE_BATCH: Final = 32  # Tokens between two looks of the screening there.
LARGE_NUMBERS: Final = 6_000_000  # Most probabilities of one call there.

SHAPES: Final = (Shape(32_769, 16, dtype="float32"), Shape(131_072, 10, dtype="float32"))
"""Vocabularies of 16,000 tokens and more: in smaller ones some of the cells may have no token at all."""

KINDS: Final[Mapping[str, tuple[float, int, int]]] = {
    "weak": (0.9, 2, 4),
    "good": (0.04, 0, 16),
    "mixed": (0.04, 3, 4),
}
"""How far q/p is from 1, how many positions are judged (0 for all), and how many cells there are."""

_GREEDY: Final = 4
"""One of so many requests of a mixed batch is greedy."""

_LIKELY: Final = 0.01
"""Share of the tokens that have half of the probability."""


@dataclass(frozen=True)
class _RowsInUse:
    """Rows [L+1, V] of the target, [L, V] of the draft, their sums up to each token, and cells [L+1, V]."""

    target: NDArray[np.float64]
    draft: NDArray[np.float64]
    up_to: tuple[NDArray[np.float64], NDArray[np.float64]]
    cells: NDArray[np.int64]


@lru_cache(maxsize=4)
def _rows(vocab: int, length: int, kind: str, seed: int) -> _RowsInUse:
    apart, _, count = KINDS[kind]
    rng, tokens = stream(seed, "sampler/large/rows"), np.arange(vocab)
    is_likely, is_more = rng.random((length + 1, vocab)) < _LIKELY, rng.random((length + 1, vocab)) < 0.5
    cells = is_more + 2 * is_likely + 4 * (2 * (tokens >= vocab // 2) + tokens % 2) * (count > 4)
    target = 0.5 + rng.random(cells.shape)
    mass = [np.bincount(cell, row, count)[cell] for row, cell in zip(target, cells, strict=True)]
    target /= count * np.array(mass)
    draft = (target * np.where(is_more, 1 - apart, 1 + apart))[:-1]
    return _RowsInUse(target, draft, (target.cumsum(axis=1), draft.cumsum(axis=1)), cells)


def _drawn(up_to: NDArray[np.float64], rng: np.random.Generator, size: int | tuple[int, ...]) -> Any:
    """Sample tokens of one row."""
    return np.searchsorted(up_to, rng.random(size) * up_to[-1], side="right")


@dataclass
class Large:
    """Tokens of one kind at one shape, as `spec_oracle.audit.sampling.Sampled`: ``counts`` of their cells."""

    shape: Shape
    kind: str
    code: SamplerCode
    num_paths: int
    rng: np.random.Generator
    seed: int
    generator: object = None
    requests: int = 0
    counts: NDArray[np.int64] = field(init=False)
    seconds: float = 0.0
    slack: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        self.counts = np.zeros(KINDS[self.kind][2], dtype=np.int64)

    @property
    def law(self) -> NDArray[np.float64]:
        """The probability of each cell."""
        return np.full(len(self.counts), 1 / len(self.counts))

    @property
    def positions(self) -> int:
        """How many positions of a request are judged."""
        return KINDS[self.kind][1] or self.shape.draft_length + 1

    def draw(self, count: int) -> None:
        """Add about so many tokens, those of whole requests."""
        left = math.ceil(count / self.positions)
        if self.kind == "mixed":  # greedy requests do not count
            left = math.ceil(left * _GREEDY / (_GREEDY - 1)) + 1
        while left > 0:
            size = min(left, max(1, LARGE_NUMBERS // (self.num_paths * self.shape.numbers)))
            self._call(size)
            left -= size

    def _call(self, size: int) -> None:
        rows = _rows(self.shape.vocab_size, self.shape.draft_length, self.kind, self.seed)
        tokens = np.stack([_drawn(row, self.rng, (size, self.num_paths)) for row in rows.up_to[1]], axis=-1)
        several = (np.broadcast_to(r, (size, self.num_paths, *r.shape)) for r in (rows.draft, rows.target))
        started = time.perf_counter()
        drafts, code, options = Paths(tokens, *several), self.code, NO_OPTIONS
        if self.kind == "mixed":
            drafts, options = self._mixed(drafts)
            code = _with_generators(code, self.rng)
        emissions = code(drafts, self.generator, options)
        require_possible(code, drafts, emissions, options)
        self.seconds += time.perf_counter() - started
        counts = ~options["is_greedy"] if "is_greedy" in options else np.full(size, fill_value=True)
        for position in range(self.positions):
            own = np.where(
                position < emissions.lengths,
                emissions.tokens[:, position],
                _drawn(rows.up_to[0][position], self.rng, size),
            )
            self.counts += np.bincount(rows.cells[position, own[counts]], minlength=len(self.counts))

    def _mixed(self, drafts: Paths) -> tuple[Paths, Options]:
        """Return drafts and optional arguments: own lengths, and every fourth request greedy."""
        names, options, size = options_of(self.code), dict[str, Numbers](), drafts.batch
        tokens, draft, target = np.array(drafts.tokens), drafts.draft_probs, np.array(drafts.target_probs)
        if "is_greedy" in names:
            is_greedy = options["is_greedy"] = (self.requests + np.arange(size)) % _GREEDY == 0
            likeliest = self.rng.integers(target.shape[-1], size=target.shape[:-1])
            rows = target[is_greedy]
            np.put_along_axis(rows, likeliest[is_greedy][..., None], 0.5, axis=-1)
            target[is_greedy] = rows / rows.sum(axis=-1, keepdims=True)
            follows = np.arange(tokens.shape[-1]) < self.rng.integers(tokens.shape[-1] + 1, size=(size, 1, 1))
            tokens = np.where(follows & is_greedy[:, None, None], likeliest[..., :-1], tokens)
        if "draft_lengths" in names:
            lengths = options["draft_lengths"] = self.rng.integers(self.positions, size=size)
            beyond = np.arange(tokens.shape[-1]) >= lengths[:, None]
            tokens[:, 0][beyond] = 0
        self.requests += size
        return Paths(tokens, draft, target), options


def _with_generators(code: SamplerCode, rng: np.random.Generator) -> SamplerCode:
    """Return the code with a new generator for every second request, where it takes them."""
    if "generators" not in parameters_of(code.function):
        return code

    def function(tokens: Any, draft: object, target: object, generator: object, **options: object) -> Any:
        seeds = enumerate(rng.integers(2**31, size=len(tokens)).tolist())
        own = {request: new_generator(code.array, seed) for request, seed in seeds if request % 2}
        return code.function(tokens, draft, target, generator, **options, generators=own)

    return replace(code, function=function)


def large(subject: SamplerSubject, context: Context, rate: float) -> tuple[CheckResult, Sequence[Shape]]:
    """Judge tokens at every shape that the subject takes; return also the shapes that were sampled enough.

    Inconclusive where a total variation of `LARGE_TV` a token would not be detected.
    """
    fits = [
        s for s in SHAPES if all(getattr(s, axis) in values for axis, values in context.shapes.only.items())
    ]
    code, rng = replace(subject.code, dtype="float32"), context.stream("sampler/large")
    generator, paths = code.generator(context.seed), subject.num_paths
    has_options = paths == 1 and not {*OPTIONS}.isdisjoint(parameters_of(code.function))
    names = {
        f"V {s.vocab_size:,}, L {s.draft_length}, {kind} drafts": (s, kind)
        for s in fits
        for kind in KINDS
        if kind != "mixed" or (s is fits[0] and has_options)
    }

    def fresh(name: str) -> Large:
        return Large(*names[name], code, paths, rng, context.seed, generator)

    if not names or context.shapes.most is not None:
        return passed("", alpha=rate), ()
    part, seconds = split(rate / 2, len(names)), context.shape_seconds
    samples = {name: fresh(name) for name in names}
    needed = {name: draws_needed_by_g(LARGE_TV, one.law, alpha=part) for name, one in samples.items()}
    requests = sum(needed[name] / one.positions for name, one in samples.items())
    if requests > affordable(subject, context):
        return inconclusive(f"V 131,072: takes {requests:,.0f} requests; raise --budget", alpha=rate), ()
    decision = judge_samples(
        samples,
        fresh,
        rate=rate,
        seconds=seconds,
        tv=LARGE_TV,
        batch=LARGE_BATCH,
        turns=effort.SAMPLER_FOLLOW_UPS,
        most=max(needed.values()),
        admitted=context.admitted,
    )
    say = partial(check_result, alpha=rate, draws=decision.draws, how=How.SAMPLED)
    if decision.worst is not None:
        worst = decision.fresh.get(decision.worst, samples[decision.worst])
        least = total_variation_interval(worst.counts, worst.law, alpha=part).lower
        detail = f"float32 rows, {decision.worst}: {decision.reason}"
        return say(Status.FAILED, detail, total_variation=least), ()
    found = {
        name: smallest_detectable_tv_by_g(int(one.counts.sum()), one.law, alpha=part)
        for name, one in decision.fresh.items()
    }
    scope = tuple(
        f"sampled, float32 rows: {name}: {int(one.counts.sum()):,} tokens "
        + (
            f"detect a total variation of {tv:.2g} a token"
            if (tv := found[name]) < 1
            else "are too few to detect a defect"
        )
        for name, one in decision.fresh.items()
    )
    short = [name for name, tv in found.items() if tv > LARGE_TV]
    if short:
        paces = (needed[name] * one.seconds / one.counts.sum() for name, one in decision.fresh.items())
        budget = 10 * math.ceil(1.5 * sum(paces) / seconds * context.budget / 10)
        detail = f"too few samples at {'; '.join(short)} (--budget {budget} should do)"
        return say(Status.INCONCLUSIVE, detail, scope=scope), ()
    detail = f"tokens at V {' and '.join(f'{s.vocab_size:,}' for s in fits)} are as expected"
    detail += f" (a total variation of {max(found.values()):.2g} a token would show)"
    return say(Status.PASSED, detail, scope=scope), fits
