"""Texts that a server drew near each other, in time or by their seeds, against texts drawn far apart.

No law is needed: pairs of texts that are independent have the law of pairs that were put together by chance.
"""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.apis import Ask, Token
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.server.served import Served
from spec_oracle.statistics import Homogeneity, homogeneity

Text: TypeAlias = tuple[Token, ...]
Pair: TypeAlias = tuple[Text, Text]

GROUPS = 3
"""Texts are put into that many groups by a hash; cells of pairs are pairs of groups, equal texts apart."""

PAIRS = 800
"""Pairs that are drawn: with as many far apart they find dependence of total variation 0.25."""

COARSEST = 0.5
"""Total variation of pairs that must be found for a pass: requests that share randomness have equal texts."""


def first_prompt(served: Served, seed: int | None = None) -> Ask:
    """Return the request for a text after the first prompt."""
    return Ask(served.server.prompts[0], served.plan.tokens, seed)


def volleys(
    served: Served, asks: Callable[[], Sequence[Ask]], count: int, seconds: float
) -> list[list[Text]]:
    """Send sets of requests, each at once and one set after another; at least one, until the time is up."""
    end, found = time.monotonic() + seconds, list[list[Text]]()
    while len(found) < count and (not found or time.monotonic() < end):
        found.append([done.tokens for done in served.server.complete(asks())])
    return found


def far_texts(served: Served) -> list[Text]:
    """Return texts after the first prompt: those of `joint`, and new ones as far as these are too few."""
    texts = served.texts
    while (missing := 2 * PAIRS - len(texts.after(0))) > 0:
        texts.draw(missing * len(served.server.prompts))
    return texts.after(0)


def judged_pairs(what: str, near: Sequence[Pair], served: Served, alpha: float) -> CheckResult:
    """Judge whether pairs of texts have the law of pairs made at random of texts drawn far apart."""
    far = far_texts(served)
    order = np.random.default_rng([served.seed, 3]).permutation(len(far))
    fit = homogeneity(
        _counts(near),
        _counts([(far[i], far[j]) for i, j in zip(order[::2], order[1::2], strict=False)]),
        alpha=alpha,
    )
    return told(what, fit, COARSEST)


def told(what: str, fit: Homogeneity, coarsest: float) -> CheckResult:
    """Return the result of a comparison, which passes if it would have found a TV of ``coarsest``."""
    status, detail = Status.PASSED if fit.passed else Status.FAILED, f"{what}: {fit}"
    if fit.passed and fit.smallest_detectable_tv > coarsest:
        status, detail = Status.INCONCLUSIVE, f"{detail}; too few, raise --budget"
    return CheckResult("", status, detail, fit.alpha, fit.draws[0])


def _counts(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    cells = [_group(one) * GROUPS + _group(two) + GROUPS**2 * (one == two) for one, two in pairs]
    return np.bincount(cells, minlength=2 * GROUPS**2)


def _group(text: Text) -> int:
    """Return a number that depends on the text alone, not on where it came."""
    return blake2b(repr(text).encode(), digest_size=1).digest()[0] % GROUPS
