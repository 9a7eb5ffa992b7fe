"""The check `scale`: low precision, large vocabularies and large index products keep the distribution.

Of a large vocabulary the first token is judged twice, since most of its tokens are never seen twice: tokens
grouped by how p compares with q, which shows a wrong ratio or residual; and how often samples of equally
likely tokens coincide, which shows tokens that are never emitted, as when sums or uniforms are too coarse to
distinguish 16,000 tokens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import completion, extended_cells, sampled_drafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.throughput import require_affordable
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.drafting import next_draft_law
from spec_oracle.statistics import split
from spec_oracle.toy import Instance
from verifiers import Paths, Siblings
from verifiers.sampling import invert_cdf

SCALE_ROUNDS: Final = 8  # Looks at samples at a large vocabulary.
SCALE_MORE_ROUNDS: Final = 32  # Rounds of a second look, where the first is suspicious.
SCALE_REQUESTS: Final = 64  # Requests of a round at a large vocabulary.
SCALE_TYPE_ROUNDS: Final = 4  # Looks at samples in each number type.
SCALE_TYPE_REQUESTS: Final = 1_000  # Requests of a round in each number type.

Kind: TypeAlias = tuple[int, Siblings]
"""How many draft paths, and how they are drawn."""

SWEPT_VOCABULARY: Final = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""

VOCABULARY: Final = 16_001
CELLS: Final = 8
"""Groups of its tokens."""

SUSPICIOUS: Final = 0.01
"""P-value of a first look up to which there is a second one."""

DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "numpy": ("float32", "float16"),
}
"""The types that rows may come in besides float64, by array library."""


def scale(subject: CalledAsSampler, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision."""
    at_large_vocabulary = SCALE_ROUNDS * SCALE_REQUESTS
    in_one_type = SCALE_TYPE_ROUNDS * SCALE_TYPE_REQUESTS + at_large_vocabulary
    requests = 2 * SWEPT_VOCABULARY + 2 * at_large_vocabulary + 3 * in_one_type
    require_affordable(subject, context, requests)
    # A toy whose rows are exact in every floating type.
    toy = panel(3, 2, subject.num_paths, context.seed)["flat"]
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
    code, paths, vocab = subject.code, subject.num_paths, vocab_size
    wanted = np.arange(vocab)
    drafted = (wanted * 7 + 3) % vocab
    target = np.repeat(np.eye(vocab)[:, None, None], 2, axis=2)
    draft = np.eye(vocab)[drafted][:, None, None]
    drafts = _on_every_path(drafted[:, None, None], draft, target, paths)
    emissions = code(drafts, code.generator(context.seed))
    wrong = emissions.tokens[:, 0] != wanted
    if wrong.any():
        token = int(np.argmax(wrong))
        found = emissions.tokens[token, 0]
        detail = f"token {found} was emitted by request {token} where {token} has probability 1"
        count = int(wrong.sum())
        least = float(scipy.stats.beta.ppf(rate, count, vocab - count + 1))  # of the mean over requests
        return failed(detail, draws=vocab, total_variation=least)
    return passed(f"each of {vocab} ids is emitted where it has probability 1", draws=vocab)


def _on_every_path(tokens: Numbers, draft: Numbers, target: Numbers, paths: int) -> Paths:
    """Return drafts of ``paths`` equal paths, from arrays with an axis of one path."""
    return Paths(*(np.repeat(array, paths, axis=1) for array in (tokens, draft, target)))


@part
def large_offsets(subject: CalledAsSampler, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Request t drafts t for certain, the target halves between t and t + 1: another request's q shows."""
    code, vocab = subject.code, vocab_size
    drafted = np.arange(vocab)
    certain = np.eye(vocab)
    target = np.repeat((0.5 * (certain + np.roll(certain, 1, axis=1)))[:, None, None], 2, axis=2)
    drafts = _on_every_path(drafted[:, None, None], certain[:, None, None], target, subject.num_paths)
    tokens = code(drafts, code.generator(context.seed)).tokens[:, 0]
    outcomes, law = np.minimum((tokens - drafted) % vocab, 2), np.array([0.5, 0.5, 0.0])
    named = ("the drafted token", "the token after it", "any other token").__getitem__
    return judge_rounds(
        "requests at large offsets", [law], [[outcomes]], alpha=rate, named=named, admitted=context.admitted
    )


@part
def tokens_by_ratio(subject: CalledAsSampler, context: Context, rate: float) -> CheckResult:
    """Judge the first token of one draft on Zipf-like rows, by groups of tokens."""
    code, paths = subject.code, (subject.num_paths, subject.drafting)
    rng, generator = context.stream("sampler/scale/ratios"), code.generator(context.seed)
    target, draft = (zipf_row(rng, VOCABULARY) for _ in range(2))
    cell_of = cells_by_ratio(target, draft)

    law = _normalised(np.bincount(cell_of, weights=target, minlength=CELLS))
    rounds = (
        [cell_of[_first_tokens(code, paths, (target, draft), generator, rng)]] for _ in range(SCALE_ROUNDS)
    )
    groups = np.bincount(cell_of, minlength=CELLS)

    def named(cell: int) -> str:
        return f"the {groups[cell]:,} tokens of group {cell} of {CELLS}, ordered by p/q,"

    return judge_rounds(
        f"first tokens at V = {VOCABULARY:,}",
        [law],
        rounds,
        alpha=rate,
        named=named,
        admitted=context.admitted,
    )


@part
def equal_tokens(subject: CalledAsSampler, context: Context, rate: float, *, dtype: str) -> CheckResult:
    """Judge whether samples of equally likely tokens coincide as rarely as they should.

    Sample i coincides with an earlier one with probability i / V at most, whatever came before. The number of
    such samples is therefore no larger than a sum of independent Bernoulli variables, whose upper tail beyond
    the mean is at most that of the binomial law of the same mean (Hoeffding 1956, theorem 4). Where a first
    look is suspicious, a second one at more samples decides; each has half of the rate.
    """
    code, paths = replace(subject.code, dtype=dtype), (subject.num_paths, subject.drafting)
    rng = context.stream(f"sampler/scale/{code.dtype}/equal tokens")
    generator, draft = code.generator(context.seed), zipf_row(rng, VOCABULARY)
    rows, draws = (np.full(VOCABULARY, 1 / VOCABULARY), draft), 0
    for rounds in (SCALE_ROUNDS, SCALE_MORE_ROUNDS):
        sampled = np.concatenate([_first_tokens(code, paths, rows, generator, rng) for _ in range(rounds)])
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


def _first_tokens(
    code: SamplerCode,
    paths: Kind,
    rows: tuple[NDArray[np.float64], NDArray[np.float64]],
    generator: object,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the first tokens, int [B], after one draft each; ``rows`` are those of target and draft."""
    (target, draft), (count, drafting), requests = rows, paths, SCALE_REQUESTS
    rows_p = np.broadcast_to(target, (requests, count, 2, VOCABULARY))
    rows_q = np.broadcast_to(draft, (requests, count, 1, VOCABULARY))
    tokens = np.zeros((requests, 0), dtype=np.int64)
    for path in range(count):
        law = next_draft_law(drafting, rows_q[:, 0, 0], tokens, np.ones((requests, count), dtype=bool), path)
        tokens = np.concatenate([tokens, invert_cdf(law, rng.random(requests))[:, None]], axis=1)
    return code(Paths(tokens[:, :, None], rows_q, rows_p), generator).tokens[:, 0]


def zipf_row(rng: np.random.Generator, vocab: int) -> NDArray[np.float64]:
    """Return a row [V] of probabilities like 1, 1/2, 1/3, ... in any order."""
    return _normalised(1.0 / (1.0 + rng.permutation(vocab)))


def _normalised(weights: Numbers) -> NDArray[np.float64]:
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def cells_by_ratio(target: NDArray[np.float64], draft: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group tokens by p/q into `CELLS` of about equal p: what a residual must not produce stands apart."""
    order = np.argsort(target / draft, kind="stable")
    before = np.cumsum(target[order]) - target[order]
    cell_of = np.empty(len(order), dtype=np.int64)
    cell_of[order] = np.minimum((before * CELLS).astype(np.int64), CELLS - 1)
    return cell_of


def low_precision(subject: CalledAsSampler, instance: Instance, context: Context, rate: float) -> CheckResult:
    """Judge code in every type on a toy and on a large vocabulary; only the types that count can fail it.

    The rows of ``instance`` must be exact in every type, so that its law is the one to be kept. A type that
    the code refuses with an exception is named in the detail, and counts neither for nor against it.
    """
    dtypes, draws = DTYPES[subject.code.array], 0
    refused, scope, notes = {}, [], []
    for dtype in dtypes:
        # What fails in a type that does not count is a note, and needs no smaller inputs.
        one = replace(context, shrink=context.shrink and dtype in context.shapes.dtypes)
        parts = (
            partial(completions_in, subject, one, instance=instance, dtype=dtype),
            partial(equal_tokens, subject, one, dtype=dtype),
        )
        result = first_failure(split(rate, len(dtypes)), *parts)
        draws += result.measured.draws
        if result.status is Status.FAILED:
            if dtype in context.shapes.dtypes:
                return result
            notes.append(f"not for {dtype} rows: {result.detail}")
            continue
        scope += [f"{dtype}: {line}" for line in result.remarks.scope]
        if result.status is Status.INCONCLUSIVE:
            refused[dtype] = f"; {dtype} refused ({result.detail})"
    kept = ", ".join(dtype for dtype in dtypes if f"{dtype}: " in "".join(scope))
    detail = f"distribution kept in {kept or 'no other type'}{''.join(refused.values())}"
    return passed(detail, alpha=rate, draws=draws, how=How.SAMPLED, scope=tuple(scope), notes=tuple(notes))


@part
def completions_in(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance, dtype: str
) -> CheckResult:
    """Judge the completions of a toy whose rows are exact in the type."""
    rng, code = context.stream(f"sampler/scale/{dtype}"), replace(subject.code, dtype=dtype)
    generator, law = code.generator(context.seed), instance.floats.target.joint(instance.draft_length + 1)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(SCALE_TYPE_ROUNDS):
            drafts = sampled_drafts(instance, SCALE_TYPE_REQUESTS, rng, subject.drafting)
            emissions = code(drafts, generator)
            yield [extended_cells(instance, emissions.tokens, emissions.lengths, rng)]

    named = partial(completion, instance)
    return judge_rounds(
        f"completions in {dtype}", [law], rounds(), alpha=rate, named=named, admitted=context.admitted
    )
