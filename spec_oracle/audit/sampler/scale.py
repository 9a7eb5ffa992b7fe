"""The check `scale`, and samples of `shapes` at full vocabularies, of code that cannot be traced there.

Of 16,000 tokens and more few are seen twice, so tokens are counted by cells that share what verification gets
wrong: whether the target or the draft gives them more (in the order of p/q a defect shows nearly all of its
total variation, see docs/theory.md), whether they are likely, and, where tokens are many, in which half of
the vocabulary they are, at an even or an odd id. All cells are equally likely, at every position. How often
equally likely tokens coincide shows tokens that are never emitted, as when sums or uniforms are too coarse.

Drafts are *weak*, refused at one of the first two positions as a rule, or *good*: they reach the last
position and the bonus. Code with optional arguments also gets *mixed* batches of short drafts, greedy
requests, and requests with generators of their own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.experiment import Effort, Experiment, numbered, sampled
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, passed
from spec_oracle.audit.sampler.batch import options_of
from spec_oracle.audit.sampler.one_call import require_possible
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import affordable, require_affordable
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts.sampler import SamplerCode, new_generator
from spec_oracle.exact.drafting import next_draft_law
from spec_oracle.statistics import draws_needed_by_g, split
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance
from verifiers import Paths
from verifiers.sampling import invert_cdf

SCALE_ROUNDS: Final = 8  # Looks at samples at a large vocabulary.
SCALE_MORE_ROUNDS: Final = 32  # Rounds of a second look, where the first is suspicious.
SCALE_REQUESTS: Final = 64  # Requests of a round at a large vocabulary.
SCALE_TYPE_ROUNDS: Final = 4  # Looks at samples in each number type.
SCALE_TYPE_REQUESTS: Final = 1_000  # Requests of a round in each number type.
# TV of a token that samples must detect at full vocabularies where code cannot be traced.
LARGE_TV: Final = 0.17
LARGE_BATCH: Final = 32  # Tokens between two looks of the screening there.
LARGE_NUMBERS: Final = 6_000_000  # Most probabilities of one call there.

SWEPT_VOCABULARY: Final = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""

VOCABULARY: Final = 16_001

SHAPES: Final = (Shape(32_769, 16, dtype="float32"), Shape(131_072, 10, dtype="float32"))
"""Vocabularies of 16,000 tokens and more: in smaller ones some of the cells may have no token at all."""

KINDS: Final[Mapping[str, tuple[float, int, int]]] = {
    "weak": (0.9, 2, 4),
    "good": (0.04, 0, 16),
    "mixed": (0.04, 3, 4),
    "equal": (0.0, 1, 0),
}
"""How far q/p is from 1, how many positions are judged (0 for all), and how many cells there are.

Of *equal* tokens every one is its own cell; their drafts have probabilities like 1, 1/2, 1/3, ...
"""

SUSPICIOUS: Final = 0.01  # P-value of a first look up to which there is a second one.
_GREEDY: Final = 1 / 4  # Share of the requests of a mixed batch that are greedy.
_LIKELY: Final = 0.01  # Share of the tokens that have half of the probability.

DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "numpy": ("float32", "float16"),
}
"""The types that rows may come in besides float64, by array library."""


def scale(subject: CalledAsSampler, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision."""
    at_large_vocabulary, in_a_type = SCALE_ROUNDS * SCALE_REQUESTS, SCALE_TYPE_ROUNDS * SCALE_TYPE_REQUESTS
    requests = 2 * SWEPT_VOCABULARY + 5 * at_large_vocabulary + 3 * in_a_type
    require_affordable(subject, context, requests)
    toy = panel(3, 2, subject.num_paths, context.seed)["flat"]  # its rows are exact in every number type
    return first_failure(
        context.rate,
        partial(every_id, subject, context, vocab_size=SWEPT_VOCABULARY),
        partial(large_offsets, subject, context, vocab_size=SWEPT_VOCABULARY),
        partial(tokens_by_ratio, subject, context),
        partial(equal_tokens, subject, context, dtype=subject.code.dtype),
        partial(low_precision, subject, toy, context),
    )


@part
def every_id(subject: CalledAsSampler, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Request t has the target token t for certain, and another draft: t must come out."""
    code, vocab, wanted = subject.code, vocab_size, np.arange(vocab_size)
    drafts = _certain_drafts((wanted * 7 + 3) % vocab, np.eye(vocab), subject.num_paths)
    tokens = code(drafts, code.generator(context.seed)).tokens[:, 0]
    wrong = np.flatnonzero(tokens != wanted)
    if wrong.size:
        first = wrong[0]
        detail = f"token {tokens[first]} was emitted by request {first} where {first} has probability 1"
        # A bound of the mean over requests.
        least = float(scipy.stats.beta.ppf(rate, wrong.size, vocab - wrong.size + 1))
        return failed(detail, draws=vocab, total_variation=least)
    return passed(f"each of {vocab} ids is emitted where it has probability 1", draws=vocab)


@part
def large_offsets(subject: CalledAsSampler, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Request t drafts t for certain, the target halves between t and t + 1: another request's q shows."""
    code, drafted, certain = subject.code, np.arange(vocab_size), np.eye(vocab_size)
    target = 0.5 * (certain + np.roll(certain, 1, axis=1))
    drafts = _certain_drafts(drafted, target, subject.num_paths)
    named = ("the drafted token", "the token after it", "any other token").__getitem__

    def outcomes(_: int) -> NDArray[np.int64]:
        tokens = code(drafts, code.generator(context.seed)).tokens[:, 0]
        return np.asarray(np.minimum((tokens - drafted) % vocab_size, 2), dtype=np.int64)

    one = numbered("requests at large offsets", "a token", np.array([0.5, 0.5, 0.0]), outcomes, shown=named)
    return sampled([one], replace(context, rate=rate), Effort(math.inf, vocab_size, turns=0))


def _certain_drafts(drafted: NDArray[np.int64], target: NDArray[np.float64], paths: int) -> Paths:
    """Return requests that draft a token [B] for certain, on equal paths, with target rows [B, V]."""
    draft = np.eye(len(drafted))[drafted][:, None, None]
    arrays = (drafted[:, None, None], draft, np.repeat(target[:, None, None], 2, axis=2))
    return Paths(*(np.repeat(array, paths, axis=1) for array in arrays))


@part
def tokens_by_ratio(subject: CalledAsSampler, context: Context, rate: float) -> CheckResult:
    """Judge the first tokens after weak drafts, by groups of tokens."""
    kinds = product(("other", "likely"), ("draft", "target"))
    named = [f"the {likely} tokens that the {more} gives more" for likely, more in kinds].__getitem__
    tokens = _tokens(subject, subject.code, context, "weak", "sampler/scale/ratios")
    one = tokens.experiment(f"first tokens at V = {VOCABULARY:,}", shown=named)
    looks = Effort(math.inf, SCALE_REQUESTS * tokens.positions, turns=SCALE_ROUNDS - 1)
    return sampled([one], replace(context, rate=rate), looks)


@part
def equal_tokens(subject: CalledAsSampler, context: Context, rate: float, *, dtype: str) -> CheckResult:
    """Judge whether samples of equally likely tokens coincide as rarely as they should.

    Sample i coincides with an earlier one with probability i / V at most, whatever came before. The number of
    such samples is therefore no larger than a sum of independent Bernoulli variables, whose upper tail beyond
    the mean is at most that of the binomial law of the same mean (Hoeffding 1956, theorem 4). Where a first
    look is suspicious, a second one at more samples decides; each has half of the rate.
    """
    code, draws = replace(subject.code, dtype=dtype), 0
    tokens = _tokens(subject, code, context, "equal", f"sampler/scale/{dtype}/equal tokens")
    for rounds in (SCALE_ROUNDS, SCALE_MORE_ROUNDS):
        sampled = np.concatenate([tokens.cells(SCALE_REQUESTS) for _ in range(rounds)])
        count, coincident = len(sampled), len(sampled) - len(np.unique(sampled))
        draws, chance = draws + count, (count - 1) / 2 / VOCABULARY
        p_value = float(scipy.stats.binom.sf(coincident - 1, count, chance)) if coincident else 1.0
        if p_value > SUSPICIOUS or p_value <= rate / 2:
            break
    what = f"{VOCABULARY:,} equally likely tokens in {code.dtype}"
    detail = f"{coincident} of {count} samples of {what} coincide, {chance * count:.0f} expected"
    scope = (f"equally likely tokens in {code.dtype}: p-value {p_value:.3g}",)
    result = passed if p_value > rate / 2 else failed
    return result(detail, alpha=rate, draws=draws, how=How.SAMPLED, scope=scope)


def _tokens(subject: CalledAsSampler, code: SamplerCode, context: Context, kind: str, name: str) -> "Tokens":
    """Return what samples the first tokens of one kind at a large vocabulary."""
    generator, rng = code.generator(context.seed), context.stream(name)
    return Tokens(subject, code, Shape(VOCABULARY, 1), kind, context.seed, generator, rng)


def low_precision(subject: CalledAsSampler, instance: Instance, context: Context, rate: float) -> CheckResult:
    """Judge code in every type on a toy and on a large vocabulary; only the types that count can fail it.

    The rows of ``instance`` must be exact in every type, so that its law is the one to be kept. A type that
    the code refuses with an exception is named in the detail, and counts neither for nor against it.
    """
    dtypes, draws, toy_part = DTYPES[subject.code.array], 0, partial(completions_in, instance=instance)
    refused, scope, notes = list[str](), list[str](), list[str]()
    for dtype in dtypes:
        # What fails in a type that does not count is a note, and needs no smaller inputs.
        one = replace(context, shrink=context.shrink and dtype in context.shapes.dtypes)
        parts = (partial(some, subject, one, dtype=dtype) for some in (toy_part, equal_tokens))
        result = first_failure(split(rate, len(dtypes)), *parts)
        draws += result.measured.draws
        if result.status is Status.FAILED:
            if dtype in context.shapes.dtypes:
                return result
            notes.append(f"not for {dtype} rows: {result.detail}")
            continue
        scope += [f"{dtype}: {line}" for line in result.remarks.scope]
        if result.status is Status.INCONCLUSIVE:
            refused.append(f"; {dtype} refused ({result.detail})")
    kept = ", ".join(dtype for dtype in dtypes if f"{dtype}: " in "".join(scope))
    detail = f"distribution kept in {kept or 'no other type'}{''.join(refused)}"
    return passed(detail, alpha=rate, draws=draws, how=How.SAMPLED, scope=tuple(scope), notes=tuple(notes))


@part
def completions_in(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance, dtype: str
) -> CheckResult:
    """Judge the completions of a toy whose rows are exact in the type."""
    calls = Calls(replace(subject.code, dtype=dtype), context.seed, f"sampler/scale/{dtype}")
    one = replace(calls.on("toy", instance), what=f"completions in {dtype}")
    looks = Effort(math.inf, SCALE_TYPE_REQUESTS, turns=SCALE_TYPE_ROUNDS - 1)
    return sampled([one], replace(context, rate=rate), looks)


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
    rng, tokens, size = stream(seed, "sampler/large/rows"), np.arange(vocab), (length + 1, vocab)
    if kind == "equal":
        zipf = 1.0 / (1.0 + rng.permuted(np.broadcast_to(tokens, (length, vocab)), axis=1))
        cells, target = np.broadcast_to(tokens, size), np.full(size, 1 / vocab)
        draft = zipf / zipf.sum(axis=1, keepdims=True)
    else:
        is_likely, is_more = rng.random(size) < _LIKELY, rng.random(size) < 0.5
        cells = is_more + 2 * is_likely + 4 * (2 * (tokens >= vocab // 2) + tokens % 2) * (count > 4)
        target = 0.5 + rng.random(size)
        mass = [np.bincount(cell, row, count)[cell] for row, cell in zip(target, cells, strict=True)]
        target /= count * np.array(mass)
        draft = (target * np.where(is_more, 1 - apart, 1 + apart))[:-1]
    return _RowsInUse(target, draft, (target.cumsum(axis=1), draft.cumsum(axis=1)), cells)


def _drawn(up_to: NDArray[np.float64], rng: np.random.Generator, size: int | tuple[int, ...]) -> Any:
    """Sample tokens of one row."""
    return np.searchsorted(up_to, rng.random(size) * up_to[-1], side="right")


@dataclass(frozen=True)
class Tokens:
    """Tokens of one kind at one shape, counted by the cells that they are in."""

    subject: CalledAsSampler
    code: SamplerCode
    shape: Shape
    kind: str
    seed: int
    generator: object
    rng: np.random.Generator

    @property
    def positions(self) -> int:
        """How many tokens of a request are judged."""
        return KINDS[self.kind][1] or self.shape.draft_length + 1

    def experiment(self, what: str, **more: Any) -> Experiment:
        """Return the experiment of one token; ``more`` are other fields of it."""
        count = KINDS[self.kind][2]
        return numbered(what, f"a token at {what}", np.full(count, 1 / count), self.many, **more)

    def many(self, count: int) -> NDArray[np.int64]:
        """Return the cells of about so many tokens, those of whole requests; greedy ones do not count."""
        left = math.ceil(count / self.positions / (1 - _GREEDY if self.kind == "mixed" else 1))
        most = max(1, LARGE_NUMBERS // (self.subject.num_paths * self.shape.numbers))
        return np.concatenate([self.cells(min(most, left - done)) for done in range(0, left, most)])

    def cells(self, size: int) -> NDArray[np.int64]:
        """Return the cells of the tokens of ``size`` requests, continued by the target."""
        rows = _rows(self.shape.vocab_size, self.shape.draft_length, self.kind, self.seed)
        drafts, code, options = self._drafts(rows, size), self.code, dict[str, Numbers]()
        if self.kind == "mixed":
            code, drafts, options = self._mixed(drafts)
        emissions = code(drafts, self.generator, options)
        require_possible(code, drafts, emissions, options)
        is_sampled, found = ~options.get("is_greedy", np.zeros(size, dtype=bool)), []
        for position in range(self.positions):
            drawn = _drawn(rows.up_to[0][position], self.rng, size)
            own = np.where(position < emissions.lengths, emissions.tokens[:, position], drawn)
            found.append(rows.cells[position, own[is_sampled]])
        return np.concatenate(found)

    def _drafts(self, rows: _RowsInUse, size: int) -> Paths:
        """Return drafts: the first tokens of several paths are siblings, the others independent."""
        paths, first = self.subject.num_paths, np.zeros((size, 0), dtype=np.int64)
        row = np.broadcast_to(rows.draft[0], (size, self.shape.vocab_size))
        is_path = np.ones((size, paths), dtype=bool)
        for path in range(paths):
            law = next_draft_law(self.subject.drafting, row, first, is_path, path)
            first = np.concatenate([first, invert_cdf(law, self.rng.random(size))[:, None]], axis=1)
        others = (_drawn(up_to, self.rng, (size, paths)) for up_to in rows.up_to[1][1:])
        several = (np.broadcast_to(r, (size, paths, *r.shape)) for r in (rows.draft, rows.target))
        return Paths(np.stack([first, *others], axis=-1), *several)

    def _mixed(self, drafts: Paths) -> tuple[SamplerCode, Paths, dict[str, Numbers]]:
        """Return code and drafts with own lengths, greedy requests, and a generator for every second one."""
        code, options, rng, size = self.code, dict[str, Numbers](), self.rng, drafts.batch
        tokens, target = np.array(drafts.tokens), np.array(drafts.target_probs)
        if "is_greedy" in options_of(code):
            is_greedy = options["is_greedy"] = rng.random(size) < _GREEDY
            likeliest = rng.integers(target.shape[-1], size=(size, 1, target.shape[2]))
            follows = is_greedy[:, None, None] & (
                rng.random(tokens.shape) < 0.8
            )  # most drafts are the likeliest tokens
            tokens = np.where(follows, likeliest[..., :-1], tokens)
            rows = target[is_greedy] / 2
            target[is_greedy] = rows + (np.arange(rows.shape[-1]) == likeliest[is_greedy][..., None]) / 2
        if "draft_lengths" in options_of(code):
            lengths = options["draft_lengths"] = rng.integers(self.positions, size=size)
            tokens[:, 0][np.arange(tokens.shape[-1]) >= lengths[:, None]] = 0
        if "generators" in options_of(code):
            own = {b: new_generator(code.array, int(rng.integers(2**31))) for b in range(1, size, 2)}
            code = replace(code, function=partial(code.function, generators=own))
        return code, Paths(tokens, drafts.draft_probs, target), options


def large(subject: SamplerSubject, context: Context, rate: float) -> tuple[CheckResult, Sequence[Shape]]:
    """Judge tokens at every shape that the subject takes; return also the shapes that were sampled enough.

    Inconclusive where a total variation of `LARGE_TV` a token would not be detected.
    """
    code, only = replace(subject.code, dtype="float32"), context.shapes.only
    fits = [s for s in SHAPES if all(getattr(s, axis) in values for axis, values in only.items())]
    if not fits or context.shapes.most is not None:
        return passed("", alpha=rate), ()
    rest = context.seed, code.generator(context.seed), context.stream("sampler/large")
    places = [(shape, kind) for shape in fits for kind in ("weak", "good")]
    if subject.num_paths == 1 and options_of(code):
        places.insert(2, (fits[0], "mixed"))
    tokens = [Tokens(subject, code, shape, kind, *rest) for shape, kind in places]
    each = [
        one.experiment(f"V {s.vocab_size:,}, L {s.draft_length}, {one.kind} drafts")
        for one in tokens
        for s in [one.shape]
    ]
    part = split(rate / 2, len(each))
    needed = [draws_needed_by_g(LARGE_TV, one.cells.law, alpha=part) for one in each]
    requests = sum(number / one.positions for number, one in zip(needed, tokens, strict=True))
    if requests > affordable(subject, context):
        return inconclusive(f"V 131,072: takes {requests:,.0f} requests; raise --budget", alpha=rate), ()
    enough = Effort(
        LARGE_TV, LARGE_BATCH, turns=effort.SAMPLER_FOLLOW_UPS, most=max(needed), share=context.shape_share
    )
    what = f"tokens in float32 at V {' and '.join(f'{s.vocab_size:,}' for s in fits)}"
    found = sampled(each, replace(context, rate=rate), enough, what=what)
    return found, fits if found.status is Status.PASSED else ()
