"""Texts of plain decoding by draws: one token a request, and on from there.

They need no probabilities. Where texts contradict the rows that a server shows, plain texts say which of the
two is wrong.
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.server.one_token import PlainRows
from spec_oracle.audit.server.tree import PlainTree
from spec_oracle.contracts.server import Context
from spec_oracle.statistics import goodness_of_fit_by_g, homogeneity

LEVEL = 1e-3
"""False-alarm rate of a test that blames one of the two; that either is wrong was found at the run's rate."""

AT_ONCE = 128


def are_rows_to_blame(
    rows: PlainRows, tree: PlainTree, counts: NDArray[np.int64], seconds: float, seed: int
) -> bool:
    """Whether plain texts contradict the rows as texts [C] do, and follow the same law as these.

    As many are drawn as there were texts, or as the time allows.
    """
    rng, end, drawn = np.random.default_rng([seed, 6]), time.monotonic() + seconds, int(counts.sum())
    plain = np.zeros_like(counts)
    while plain.sum() < drawn and (not plain.any() or time.monotonic() < end):
        for number, tokens in plain_texts(
            rows, rng.integers(len(rows.server.prompts), size=AT_ONCE), tree.length
        ):
            plain[tree.cell(number, tokens)] += 1
        rows.server.progress("joint, plain texts", int(plain.sum()), drawn)
    agree = goodness_of_fit_by_g(plain, tree.law, alpha=LEVEL, slack=tree.slack).passed
    return not agree and homogeneity(counts, plain, alpha=LEVEL).passed


def plain_texts(rows: PlainRows, numbers: Sequence[int] | NDArray[np.int64], length: int) -> list[Context]:
    """Return texts of ``length`` tokens after prompts, token by token."""
    texts: list[Context] = [(int(number), ()) for number in numbers]
    for _ in range(length):
        going = [place for place, (_, tokens) in enumerate(texts) if rows.server.ends.isdisjoint(tokens[-1:])]
        for place, ((number, tokens), token) in zip(
            going, rows.draws([texts[i] for i in going]), strict=True
        ):
            texts[place] = (number, (*tokens, token))
    return texts
