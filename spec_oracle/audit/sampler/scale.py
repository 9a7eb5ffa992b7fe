"""The check `scale`, and samples of `shapes` at full vocabularies, of code that cannot be traced there.

Of 16,000 tokens and more few are seen twice, so tokens are counted by cells that share what verification gets
wrong: whether the target or the draft gives them more (in the order of p/q a defect shows nearly all of its
total variation, see docs/theory.md), whether they are likely, and, where tokens are many, in which half of
the vocabulary they are, at an even or an odd id. All cells are equally likely, at every position.

Drafts are *weak*, refused at one of the first two positions as a rule, or *good*: they reach the last
position and the bonus.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Calls, at_looks, require_affordable
from spec_oracle.audit.experiment import Experiment, first_failure, numbered
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed
from spec_oracle.audit.sampling import in_bins
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts.sampler import SamplerCode
from spec_oracle.statistics import split
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance
from verifiers import Paths

SCALE_ROUNDS: Final = 8  # Looks at samples at a large vocabulary.
SCALE_REQUESTS: Final = 64  # Requests of a round at a large vocabulary.
SCALE_TYPE_ROUNDS: Final = 4  # Looks at samples in each number type.
SCALE_TYPE_REQUESTS: Final = 1_000  # Requests of a round in each number type.
LARGE_NUMBERS: Final = 6_000_000  # Most probabilities of one call there.

SWEPT_VOCABULARY: Final = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""

VOCABULARY: Final = 16_001

KINDS: Final[Mapping[str, tuple[float, int, int]]] = {
    "weak": (0.9, 2, 4),
    "good": (0.04, 0, 16),
}
"""How far q/p is from 1, how many positions are judged (0 for all), and how many cells there are."""

_LIKELY: Final = 0.01  # Share of the tokens that have half of the probability.

DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "numpy": ("float32", "float16"),
}
"""The types that rows may come in besides float64, by array library."""


def scale(subject: CalledAsSampler, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision."""
    at_large_vocabulary, in_a_type = SCALE_ROUNDS * SCALE_REQUESTS, SCALE_TYPE_ROUNDS * SCALE_TYPE_REQUESTS
    requests = 2 * SWEPT_VOCABULARY + 4 * at_large_vocabulary + 3 * in_a_type
    require_affordable(subject, context, requests)
    toy = panel(3, 2, subject.num_paths, context.seed)["flat"]  # its rows are exact in every number type
    found = first_failure(
        context.rate,
        partial(every_id, subject, context, vocab_size=SWEPT_VOCABULARY),
        partial(large_offsets, subject, context, vocab_size=SWEPT_VOCABULARY),
        partial(tokens_by_ratio, subject, context, dtype=subject.code.dtype),
        partial(low_precision, subject, toy, context),
    )
    is_raised = found.status is Status.INCONCLUSIVE and found.detail.startswith("raised ")
    why = context.shapes.why_not(VOCABULARY) if is_raised else ""
    return not_asked(f"{why}: it {found.detail}") if why else found


@part
def every_id(subject: CalledAsSampler, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Request t has the target token t for certain, and another draft: t must come out."""
    code, vocab, wanted = subject.code, vocab_size, np.arange(vocab_size)
    drafts = _certain_drafts((wanted * 7 + 3) % vocab, np.eye(vocab), subject.num_paths)
    tokens = code(drafts, code.generator(context.seed)).tokens[:, 0]
    wrong = np.flatnonzero(tokens != wanted)
    if wrong.size:
        first = wrong[0]
        detail = f"request {first} emitted token {tokens[first]}, where token {first} has probability 1"
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

    def outcomes(_: int) -> Integers:
        tokens = code(drafts, code.generator(context.seed)).tokens[:, 0]
        return np.asarray(np.minimum((tokens - drafted) % vocab_size, 2), dtype=np.int64)

    one = numbered("requests at large offsets", "a token", np.array([0.5, 0.5, 0.0]), outcomes, shown=named)
    return at_looks(one, context, rate, vocab_size, 1)


def _certain_drafts(drafted: Integers, target: Floats, paths: int) -> Paths:
    """Return requests that draft a token [B] for certain, on equal paths, with target rows [B, V]."""
    draft = np.eye(len(drafted))[drafted][:, None, None]
    arrays = (drafted[:, None, None], draft, np.repeat(target[:, None, None], 2, axis=2))
    return Paths(*(np.repeat(array, paths, axis=1) for array in arrays))


@part
def tokens_by_ratio(subject: CalledAsSampler, context: Context, rate: float, *, dtype: str) -> CheckResult:
    """Judge the first tokens after weak drafts, by groups of tokens."""
    kinds = product(("other", "likely"), ("draft", "target"))
    named = [f"the {likely} tokens that the {more} gives more" for likely, more in kinds].__getitem__
    code, name = replace(subject.code, dtype=dtype), f"sampler/scale/{dtype}/ratios"
    rest = context.seed, code.generator(context.seed), context.stream(name)
    tokens = Tokens(subject, code, Shape(VOCABULARY, 1), "weak", *rest)
    one = tokens.experiment(f"first tokens at V = {VOCABULARY:,} in {dtype}", shown=named)
    return at_looks(one, context, rate, SCALE_REQUESTS * tokens.positions, SCALE_ROUNDS)


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
        parts = (partial(some, subject, one, dtype=dtype) for some in (toy_part, tokens_by_ratio))
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
    return at_looks(one, context, rate, SCALE_TYPE_REQUESTS, SCALE_TYPE_ROUNDS)


@dataclass(frozen=True)
class _RowsInUse:
    """Rows [L+1, V] of the target, [L, V] of the draft, their sums up to each token, and cells [L+1, V]."""

    target: Floats
    draft: Floats
    up_to: tuple[Floats, Floats]
    cells: Integers


@lru_cache(maxsize=4)
def _rows(vocab: int, length: int, kind: str, seed: int) -> _RowsInUse:
    apart, _, count = KINDS[kind]
    rng, tokens, size = stream(seed, "sampler/large/rows"), np.arange(vocab), (length + 1, vocab)
    is_likely, is_more = rng.random(size) < _LIKELY, rng.random(size) < 0.5
    cells = is_more + 2 * is_likely + 4 * (2 * (tokens >= vocab // 2) + tokens % 2) * (count > 4)
    target = 0.5 + rng.random(size)
    mass = [np.bincount(cell, row, count)[cell] for row, cell in zip(target, cells, strict=True)]
    target /= count * np.array(mass)
    draft = (target * np.where(is_more, 1 - apart, 1 + apart))[:-1]
    return _RowsInUse(target, draft, (target.cumsum(axis=1), draft.cumsum(axis=1)), cells)


def _drawn(up_to: Floats, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
    """Sample tokens of one row."""
    drawn: Integers = np.searchsorted(up_to, rng.random(size) * up_to[-1], side="right")
    return drawn


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

    def experiment(self, what: str, shown: Callable[[int], str] | None = None) -> Experiment:
        """Return the experiment of one token's group, which ``shown`` names, if at all."""
        count = KINDS[self.kind][2]
        size, law = f"a token, in {count} groups of tokens, at {what}", np.full(count, 1 / count)
        named = {"binned": partial(in_bins, law)} if shown is None else {"shown": shown}
        return numbered(what, size, law, self.many, **named)

    def many(self, count: int) -> Integers:
        """Return the cells of about so many tokens, those of whole requests."""
        left = math.ceil(count / self.positions)
        most = max(1, LARGE_NUMBERS // (self.subject.num_paths * self.shape.numbers))
        return np.concatenate([self.cells(min(most, left - done)) for done in range(0, left, most)])

    def cells(self, size: int) -> Integers:
        """Return the cells of the tokens of ``size`` requests, continued by the target."""
        rows = _rows(self.shape.vocab_size, self.shape.draft_length, self.kind, self.seed)
        paths = (size, self.subject.num_paths)
        drafted = np.stack([_drawn(up_to, self.rng, paths) for up_to in rows.up_to[1]], axis=-1)
        several = (np.broadcast_to(r, (*paths, *r.shape)) for r in (rows.draft, rows.target))
        emissions, found = self.code(Paths(drafted, *several), self.generator), []
        for position in range(self.positions):
            drawn = _drawn(rows.up_to[0][position], self.rng, size)
            own = np.where(position < emissions.lengths, emissions.tokens[:, position], drawn)
            found.append(rows.cells[position, own])
        return np.concatenate(found)
