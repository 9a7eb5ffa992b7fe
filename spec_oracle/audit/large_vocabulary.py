"""The first token of a large vocabulary.

Two tests, since most of its tokens are never seen twice: tokens grouped by how p compares with q, which
shows a wrong ratio or residual; and how often draws from equal tokens coincide, which shows tokens that
cannot come out at all, as when sums or uniforms are too coarse to tell 16,000 tokens apart.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import watched
from verifiers import Drafts

VOCABULARY = 16_001
CELLS = 8
ROUNDS = 8
REQUESTS = 64


def tokens_by_ratio(check: str, subject: Subject, *, alpha: float, seed: int) -> CheckResult:
    """Judge the first token of one draft on Zipf-like rows, by groups of tokens."""
    rng, generator = checks_own_rng(seed), make_generator(subject.array, seed)
    target, draft = (_zipf_row(rng) for _ in range(2))
    cell_of = _cells_by_ratio(target, draft)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [cell_of[_first_tokens(subject, target, draft, generator, rng)]]

    law = np.bincount(cell_of, weights=target, minlength=CELLS)
    return watched(check, f"first token of {VOCABULARY}", [_normalised(law)], rounds(), alpha=alpha)


def equal_tokens(check: str, subject: Subject, *, alpha: float, seed: int) -> CheckResult:
    """Judge whether draws from equally likely tokens coincide as rarely as they should.

    Draw i coincides with an earlier one with probability i / V at most, whatever came before. The number of
    such draws is therefore no larger than a sum of independent Bernoulli variables, whose upper tail beyond
    the mean is at most that of the binomial law of the same mean (Hoeffding 1956, theorem 4).
    """
    rng, generator = checks_own_rng(seed), make_generator(subject.array, seed)
    target, draft = np.full(VOCABULARY, 1 / VOCABULARY), _zipf_row(rng)
    drawn = np.concatenate([_first_tokens(subject, target, draft, generator, rng) for _ in range(ROUNDS)])
    coincident = len(drawn) - len(np.unique(drawn))
    chance = (len(drawn) - 1) / 2 / VOCABULARY
    p_value = float(stats.binom.sf(coincident - 1, len(drawn), chance)) if coincident else 1.0
    return CheckResult(
        check,
        Status.PASSED if p_value > alpha else Status.FAILED,
        f"{coincident} of {len(drawn)} draws from {VOCABULARY} equal tokens in {subject.dtype} coincide, "
        f"{chance * len(drawn):.0f} expected: p-value {p_value:.3g}",
        alpha,
        len(drawn),
    )


def _first_tokens(
    subject: Subject,
    target: NDArray[np.float64],
    draft: NDArray[np.float64],
    generator: Any,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the first tokens int [REQUESTS] after one draft each."""
    tokens = rng.choice(VOCABULARY, p=draft, size=(REQUESTS, 1, 1))
    rows_p = np.broadcast_to(target, (REQUESTS, 1, 2, VOCABULARY))
    rows_q = np.broadcast_to(draft, (REQUESTS, 1, 1, VOCABULARY))
    return call_plain(subject, Drafts(tokens, rows_q, rows_p), generator).tokens[:, 0]


def _zipf_row(rng: np.random.Generator) -> NDArray[np.float64]:
    return _normalised(1.0 / (1.0 + rng.permutation(VOCABULARY)))


def _normalised(weights: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _cells_by_ratio(target: NDArray[np.float64], draft: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group tokens by p/q into `CELLS` of about equal p: what a residual must not produce stands apart."""
    order = np.argsort(target / draft, kind="stable")
    before = np.cumsum(target[order]) - target[order]
    cell_of = np.empty(VOCABULARY, dtype=np.int64)
    cell_of[order] = np.minimum((before * CELLS).astype(np.int64), CELLS - 1)
    return cell_of
