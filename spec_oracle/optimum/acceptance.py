"""The best acceptance probability of one step with n independent drafts: the subset rule."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import InvalidInputError
from spec_oracle.optimum.certificates import AcceptanceCertificate, Optimum
from spec_oracle.toy import ToyModel
from spec_oracle.toy.model import Row
from spec_oracle.validation import require_whole


def optimal_acceptance(
    target_row: Row, draft_row: Row, num_drafts: int, *, exact: bool = False
) -> Optimum[AcceptanceCertificate]:
    """Return the largest probability with which a rule of output law p outputs one of n i.i.d. drafts from q.

    ``target_row`` and ``draft_row`` [V] are probabilities; ``num_drafts`` is n >= 1. The value is

        alpha* = min over S of 1 - p(S) + 1 - (1 - q(S))^n,

    every S an upper bound and the best one attained (Hu et al., arXiv 2502.18779; Thomas & Pal, 2511.15898).
    The minimiser is a prefix of the tokens sorted by p/q, highest first: the bound is concave in q(S), and
    of all sets those prefixes have the largest p(S) for their q(S). O(V log V). Floats by default,
    `Fraction` with ``exact=True``. Raises `InvalidInputError` for rows that are not probabilities or differ
    in length, and for ``num_drafts`` < 1.

    >>> best = optimal_acceptance(["1/3", "2/3"], ["2/3", "1/3"], 2, exact=True)
    >>> best.value, best.certificate.subset
    (Fraction(8, 9), (1,))
    """
    require_whole(num_drafts, "num_drafts")
    target = _row(target_row, "target_row", exact=exact)
    draft = _row(draft_row, "draft_row", exact=exact)
    if len(target) != len(draft):
        raise InvalidInputError(f"draft_row: has {len(draft)} entries, target_row {len(target)}")
    order = np.argsort(-_target_share(target, draft), kind="stable")
    start = target[:1] * 0
    in_target = np.concatenate([start, np.cumsum(target[order])])
    in_draft = np.concatenate([start, np.cumsum(draft[order])])
    bounds = 1 - in_target + 1 - (1 - in_draft) ** num_drafts
    best = int(np.argmin(bounds))
    subset = tuple(sorted(int(token) for token in order[:best]))
    value = bounds[best] if exact else float(bounds[best])
    return Optimum(value, Fraction(0), AcceptanceCertificate(subset))


def _row(row: Row, name: str, *, exact: bool) -> NDArray[Any]:
    model = ToyModel.context_free(row, name=name)
    numbers: NDArray[Any] = (model.exact if exact else model.floats).rows(0)[0]
    return numbers


def _target_share(target: NDArray[Any], draft: NDArray[Any]) -> NDArray[Any]:
    """Return p/(p + q) [V], which orders tokens as p/q does; 0 where both vanish."""
    total = target + draft
    positive = total > 0
    share: NDArray[Any] = np.where(positive, target, target * 0) / np.where(positive, total, total * 0 + 1)
    return share
