"""The check `batch`: a request's result ignores its batch mates, their number and its own place."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.dependence import BUDGET_SHARE, Design, equal_calls, independent
from spec_oracle.audit.sampler.mixed_batch import mixed_batch, options_of
from spec_oracle.audit.sampler.row_by_row import beside_rule
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import homogeneity_p_value
from spec_oracle.toy import Instance
from spec_oracle.toy.contexts import after_tokens, first_of_depth
from verifiers import Drafts

BATCHES = (
    *(Design((2,), 601), Design((16,), 151), Design((33,), 79)),
    *(Design((128,), 37), Design((130,), 37), Design((1030,), 19)),
)
"""Half as many calls as are made, at each size: primes, so that no usual period hides in their halves."""


REPEATS = 600


KINDS = 5


MIXED = 3000


REPLAYED = 16
"""Requests of a batch that are replayed alone."""


def _ordered(drafts: Drafts, rows: NDArray[np.int64]) -> Drafts:
    return Drafts(*(array[rows] for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)))


def _beside_rule(subject: SamplerSubject, context: Context) -> CheckResult | None:
    """Compare batches with a rule that knows no mates, where one emits the same."""
    if options_of(subject.code):
        return None
    rng = checks_own_rng(context.seed)
    instance = panel(3, 3, subject.num_paths, context.seed)["flat"]
    sizes = [size for design in BATCHES for size in design.sizes]

    def calls() -> Iterator[Drafts]:
        yield from (sampled_drafts(instance, size, rng) for size in sizes)
        for _ in range(REPLAYED):
            yield _ordered(_with_odd_mates(sampled_drafts(instance, 1, rng)), rng.permutation(KINDS))

    rows, what = sum(sizes) + REPLAYED * KINDS, f"batches of up to {max(sizes)}, odd mates among them"
    return beside_rule(CheckResult("batch", Status.PASSED, what, draws=rows), subject, context, calls())


# WAY @BATCH.way(SamplerSubject, **COST, of_a_true_law=True, known=_beside_rule) @BATCH.way(SamplerSubject, SamplerSubject, **COST, of_a_true_law=True)
def batch(subject: Any, context: Context) -> CheckResult:
    """Judge whether requests are independent, and whether one has the law that it has alone.

    It is run alone and among odd mates, and in batches of mixed requests where the code takes them.
    """
    code, seed = subject.code, context.seed
    instance = panel(3, 3, subject.num_paths, seed)["flat"]
    parts: list[Callable[[float], CheckResult]] = [
        lambda rate: _alone_and_among_mates(code, instance, rate, seed),
        lambda rate: independent(
            equal_calls(subject, seed), BATCHES, rate, affordable=context.affordable(subject, BUDGET_SHARE)
        ),
    ]
    if subject.num_paths == 1 and options_of(code):
        parts.insert(0, lambda rate: mixed_batch(code, instance, MIXED, rate, seed))
    return first_failure(alpha, *parts)


def _alone_and_among_mates(code: SamplerCode, instance: Instance, alpha: float, seed: int) -> CheckResult:
    """Compare the texts of a request alone with its texts among odd mates, in a new order every time."""
    rng, generator = checks_own_rng(seed), code.generator(seed)
    request = sampled_drafts(instance, 1, rng)
    mates = _with_odd_mates(request)
    orders = [rng.permutation(KINDS) for _ in range(REPEATS)]

    def texts(emitted: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return how often each text was emitted, by number of context."""
        reached = after_tokens(np.zeros(REPEATS, dtype=np.int64), np.stack(emitted), instance.vocab_size)
        return np.bincount(reached, minlength=first_of_depth(instance.vocab_size, instance.draft_length + 2))

    alone = texts([code(request, generator).tokens[0] for _ in orders])
    among = texts([code(_ordered(mates, order), generator).tokens[order == 0][0] for order in orders])
    p_value = homogeneity_p_value(alone, among)
    return CheckResult(
        "",
        Status.PASSED if p_value > alpha else Status.FAILED,
        f"a request alone and among odd mates: p-value {p_value:.3g} of {REPEATS} draws each",
        alpha,
        REPEATS * (1 + KINDS),
    )


def _with_odd_mates(request: Drafts) -> Drafts:
    """Return the batch (request, greedy, certain draft, equal models, padding)."""
    tokens, draft, target = (
        np.repeat(array, KINDS, axis=0)
        for array in (request.tokens, request.draft_probs, request.target_probs)
    )
    vocab = request.vocab_size
    target[1] = np.eye(vocab)[target[1].argmax(axis=-1)]
    tokens[2] = (tokens[2] + 1) % vocab
    draft[2] = np.eye(vocab)[tokens[2]]
    target[3] = np.roll(target[3], 1, axis=-1)
    draft[3] = target[3][:, :-1]
    tokens[3] = draft[3].argmax(axis=-1)
    tokens[4] = 0
    draft[4] = target[4][:, :-1] = target[4][:, -1:] = np.eye(vocab)[0]
    return Drafts(tokens, draft, target)
