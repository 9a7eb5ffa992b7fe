"""The check `scale`: large vocabularies and large index products keep the law."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import first_failure, watched
from verifiers import Drafts

LARGE_VOCABULARY = 16_001
CELLS = 8
ROUNDS = 8
REQUESTS = 64

SWEPT_VOCABULARY = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""


def scale_of_function(subject: Subject, *, alpha: float, seed: int) -> CheckResult:
    """Judge a function on every id of a mid-size vocabulary, on large offsets, on a large vocabulary."""
    return first_failure(
        "scale",
        lambda: _every_id(subject, seed),
        lambda: _large_offsets(subject, alpha / 2, seed),
        lambda: _large_vocabulary(subject, alpha / 2, seed),
    )


def _every_id(subject: Subject, seed: int) -> CheckResult:
    """Request t has the target token t for certain, and another draft: t must come out."""
    vocab = SWEPT_VOCABULARY
    wanted = np.arange(vocab)
    drafted = (wanted * 7 + 3) % vocab
    target = np.repeat(np.eye(vocab)[:, None, None], 2, axis=2)
    draft = np.eye(vocab)[drafted][:, None, None]
    drafts = Drafts(drafted[:, None, None], draft, target)
    emissions = call_plain(subject, drafts, make_generator(subject.array, seed))
    wrong = emissions.tokens[:, 0] != wanted
    if wrong.any():
        token = int(np.argmax(wrong))
        detail = f"token {emissions.tokens[token, 0]} came out where {token} was certain"
        return CheckResult("scale", Status.FAILED, detail, draws=vocab)
    return CheckResult("scale", Status.PASSED, f"all {vocab} ids come out", draws=vocab)


def _large_offsets(subject: Subject, alpha: float, seed: int) -> CheckResult:
    """Request t drafts t for certain, the target halves between t and t + 1: another request's q shows."""
    vocab = SWEPT_VOCABULARY
    drafted = np.arange(vocab)
    certain = np.eye(vocab)
    target = np.repeat((0.5 * (certain + np.roll(certain, 1, axis=1)))[:, None, None], 2, axis=2)
    drafts = Drafts(drafted[:, None, None], certain[:, None, None], target)
    generator = make_generator(subject.array, seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        tokens = call_plain(subject, drafts, generator).tokens[:, 0]
        yield [np.minimum((tokens - drafted) % vocab, 2)]

    law = np.array([0.5, 0.5, 0.0])
    return watched("scale", "drafts kept at large offsets", [law], rounds(), alpha=alpha)


def _large_vocabulary(subject: Subject, alpha: float, seed: int) -> CheckResult:
    """Test the first token of one draft on Zipf-like rows, tokens grouped by how p compares with q."""
    rng, generator = checks_own_rng(seed), make_generator(subject.array, seed)
    target, draft = (_zipf_row(rng) for _ in range(2))
    cell_of = _cells_by_ratio(target, draft)
    rows_p = np.broadcast_to(target, (REQUESTS, 1, 2, LARGE_VOCABULARY))
    rows_q = np.broadcast_to(draft, (REQUESTS, 1, 1, LARGE_VOCABULARY))

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            tokens = rng.choice(LARGE_VOCABULARY, p=draft, size=(REQUESTS, 1, 1))
            yield [cell_of[call_plain(subject, Drafts(tokens, rows_q, rows_p), generator).tokens[:, 0]]]

    law = np.bincount(cell_of, weights=target, minlength=CELLS)
    return watched("scale", f"first token of {LARGE_VOCABULARY}", [law / law.sum()], rounds(), alpha=alpha)


def _zipf_row(rng: np.random.Generator) -> NDArray[np.float64]:
    weights = 1.0 / (1.0 + rng.permutation(LARGE_VOCABULARY))
    return np.asarray(weights / weights.sum())


def _cells_by_ratio(target: NDArray[np.float64], draft: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group tokens by p/q into `CELLS` of about equal p: what a residual must not produce stands apart."""
    order = np.argsort(target / draft, kind="stable")
    before = np.cumsum(target[order]) - target[order]
    cell_of = np.empty(LARGE_VOCABULARY, dtype=np.int64)
    cell_of[order] = np.minimum((before * CELLS).astype(np.int64), CELLS - 1)
    return cell_of
