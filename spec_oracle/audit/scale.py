"""The check `scale`: low precision, large vocabularies and large index products keep the law."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.large_vocabulary import equal_tokens, tokens_by_ratio
from spec_oracle.audit.low_precision import low_precision
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import first_failure, watched
from spec_oracle.toy import Instance
from verifiers import Drafts

SWEPT_VOCABULARY = 1003
"""No multiple of any tile; with one request a token, offsets reach 10^6."""


def scale_of_function(subject: Subject, instance: Instance, *, alpha: float, seed: int) -> CheckResult:
    """Judge a function on every id of a mid-size vocabulary, on large offsets and rows, in low precision.

    ``instance`` is a toy whose rows are exact in every floating type.
    """
    return first_failure(
        "scale",
        lambda: _every_id(subject, seed),
        lambda: _large_offsets(subject, alpha / 4, seed),
        lambda: tokens_by_ratio("scale", subject, alpha=alpha / 4, seed=seed),
        lambda: equal_tokens("scale", subject, alpha=alpha / 4, seed=seed),
        lambda: low_precision("scale", subject, instance, alpha=alpha / 4, seed=seed),
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
