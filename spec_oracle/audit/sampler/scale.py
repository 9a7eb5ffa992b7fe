"""The check `scale`: low precision, large vocabularies and large index products keep the law."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampler import large_vocabulary, low_precision
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts import SamplerCode
from verifiers import Drafts

SWEPT_VOCABULARY = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""


# WAY @SCALE.way( VerifierSubject, SamplerSubject, SamplerSubject, SamplerSubject, requests=2 * SWEPT_VOCABULARY + 2 * large_vocabulary.DRAWS + 3 * low_precision.DRAWS, of_a_true_law=True, )
def scale(subject: Any, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision."""
    code, paths, seed = subject.code, subject.num_paths, context.seed
    # A toy whose rows are exact in every floating type.
    toy = panel(3, 2, paths, seed)["flat"]
    return first_failure(
        alpha,
        lambda _: _every_id(code, paths, seed),
        lambda rate: _large_offsets(code, paths, rate, seed),
        lambda rate: large_vocabulary.tokens_by_ratio(code, (paths, subject.drafting), rate, seed),
        lambda rate: large_vocabulary.equal_tokens(code, (paths, subject.drafting), rate, seed),
        lambda rate: low_precision.low_precision(code, toy, subject.drafting, rate, seed),
    )


def _every_id(code: SamplerCode, paths: int, seed: int) -> CheckResult:
    """Request t has the target token t for certain, and another draft: t must come out."""
    vocab = SWEPT_VOCABULARY
    wanted = np.arange(vocab)
    drafted = (wanted * 7 + 3) % vocab
    target = np.repeat(np.eye(vocab)[:, None, None], 2, axis=2)
    draft = np.eye(vocab)[drafted][:, None, None]
    emissions = code(_on_every_path(drafted[:, None, None], draft, target, paths), code.generator(seed))
    wrong = emissions.tokens[:, 0] != wanted
    if wrong.any():
        token = int(np.argmax(wrong))
        found = emissions.tokens[token, 0]
        return failed(f"token {found} came out where {token} was certain", draws=vocab)
    return passed(f"all {vocab} ids come out", draws=vocab)


def _on_every_path(tokens: NDArray[Any], draft: NDArray[Any], target: NDArray[Any], paths: int) -> Drafts:
    """Return drafts of ``paths`` equal paths, from arrays with an axis of one path."""
    return Drafts(*(np.repeat(array, paths, axis=1) for array in (tokens, draft, target)))


def _large_offsets(code: SamplerCode, paths: int, alpha: float, seed: int) -> CheckResult:
    """Request t drafts t for certain, the target halves between t and t + 1: another request's q shows."""
    vocab = SWEPT_VOCABULARY
    drafted = np.arange(vocab)
    certain = np.eye(vocab)
    target = np.repeat((0.5 * (certain + np.roll(certain, 1, axis=1)))[:, None, None], 2, axis=2)
    drafts = _on_every_path(drafted[:, None, None], certain[:, None, None], target, paths)
    generator = code.generator(seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        tokens = code(drafts, generator).tokens[:, 0]
        yield [np.minimum((tokens - drafted) % vocab, 2)]

    law = np.array([0.5, 0.5, 0.0])
    return watched("drafts kept at large offsets", [law], rounds(), alpha=alpha)
