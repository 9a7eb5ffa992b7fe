"""The first token of a large vocabulary.

Two tests, since most of its tokens are never seen twice: tokens grouped by how p compares with q, which
shows a wrong ratio or residual; and how often draws from equal tokens coincide, which shows tokens that
cannot come out at all, as when sums or uniforms are too coarse to tell 16,000 tokens apart.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.drafting import next_draft_law
from verifiers import Drafting, Drafts
from verifiers.sampling import invert_cdf

Paths: TypeAlias = tuple[int, Drafting]
"""How many draft paths, and how they are drawn."""

VOCABULARY = 16_001
CELLS = 8
ROUNDS = 8
REQUESTS = 64
DRAWS = ROUNDS * REQUESTS


def tokens_by_ratio(code: SamplerCode, paths: Paths, alpha: float, seed: int) -> CheckResult:
    """Judge the first token of one draft on Zipf-like rows, by groups of tokens."""
    rng, generator = checks_own_rng(seed), code.generator(seed)
    target, draft = (_zipf_row(rng) for _ in range(2))
    cell_of = _cells_by_ratio(target, draft)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [cell_of[_first_tokens(code, paths, (target, draft), generator, rng)]]

    law = np.bincount(cell_of, weights=target, minlength=CELLS)
    return watched(f"first token of {VOCABULARY}", [_normalised(law)], rounds(), alpha=alpha)


def equal_tokens(code: SamplerCode, paths: Paths, alpha: float, seed: int) -> CheckResult:
    """Judge whether draws from equally likely tokens coincide as rarely as they should.

    Draw i coincides with an earlier one with probability i / V at most, whatever came before. The number of
    such draws is therefore no larger than a sum of independent Bernoulli variables, whose upper tail beyond
    the mean is at most that of the binomial law of the same mean (Hoeffding 1956, theorem 4).
    """
    rng, generator = checks_own_rng(seed), code.generator(seed)
    target, draft = np.full(VOCABULARY, 1 / VOCABULARY), _zipf_row(rng)
    drawn = np.concatenate(
        [_first_tokens(code, paths, (target, draft), generator, rng) for _ in range(ROUNDS)]
    )
    coincident = len(drawn) - len(np.unique(drawn))
    chance = (len(drawn) - 1) / 2 / VOCABULARY
    p_value = float(stats.binom.sf(coincident - 1, len(drawn), chance)) if coincident else 1.0
    return CheckResult(
        "",
        Status.PASSED if p_value > alpha else Status.FAILED,
        f"{coincident} of {len(drawn)} draws from {VOCABULARY} equal tokens in {code.dtype} coincide, "
        f"{chance * len(drawn):.0f} expected: p-value {p_value:.3g}",
        alpha,
        len(drawn),
    )


def _first_tokens(
    code: SamplerCode,
    paths: Paths,
    rows: tuple[NDArray[np.float64], NDArray[np.float64]],
    generator: Any,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the first tokens int [REQUESTS] after one draft each; ``rows`` are those of target and draft."""
    (target, draft), (count, drafting) = rows, paths
    rows_p = np.broadcast_to(target, (REQUESTS, count, 2, VOCABULARY))
    rows_q = np.broadcast_to(draft, (REQUESTS, count, 1, VOCABULARY))
    tokens = np.zeros((REQUESTS, 0), dtype=np.int64)
    for path in range(count):
        law = next_draft_law(drafting, rows_q[:, 0, 0], tokens, np.ones((REQUESTS, count), dtype=bool), path)
        tokens = np.concatenate([tokens, invert_cdf(law, rng.random(REQUESTS))[:, None]], axis=1)
    return code(Drafts(tokens[:, :, None], rows_q, rows_p), generator).tokens[:, 0]


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
