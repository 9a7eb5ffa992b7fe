"""Another temperature than the one on record: which one explains recorded tokens, if one does.

A trainer that divides logits by a temperature that the server did not, or twice, has samples that are wrong
in one way. Each token is put into one of ten bins by the distribution at every temperature of a list: at the
right one the bins are equally full, and the tokens are most probable. Where these are two temperatures, none
explains the tokens.

>>> rng, row = np.random.default_rng(0), np.array([0.5, 0.3, 0.15, 0.05, 0.0])
>>> hot = row**0.5 / (row**0.5).sum()
>>> round(temperature_factor(Scored(np.tile(row, (2000, 1)), rng.choice(5, 2000, p=hot)), rng), 1)
2.0
"""

from typing import Final

import numpy as np
import scipy

from spec_oracle.statistics.long_completions import Scored

FACTORS: Final = np.geomspace(0.4, 2.5, 47)
"""Of the temperature on record, 4 % apart."""

MOST_TOKENS: Final = 4000
"""More than these say nothing new."""

BINS: Final = 10
EXPLAINED, REFUTED = 1e-2, 1e-6
"""P-values of equal bins: above the first a temperature explains the tokens, below the second it does not."""

NEAR: Final = 0.06
"""By how much the temperatures of equal bins and of the largest likelihood may differ."""

MOST_OTHER: Final = 1e-3
"""Mass of tokens that are not listed, beyond which a row does not say what another temperature does."""


def temperature_factor(tokens: Scored, rng: np.random.Generator) -> float | None:
    """Return the factor that explains tokens by their distributions best; None if none does, or 1 does, too.

    ``rng`` places each token within its own probability.
    """
    masses, came = tokens.masses, tokens.came
    own = masses[np.arange(len(came)), came]
    is_known = (own > 0) & (masses[:, -1] <= MOST_OTHER) & (came < masses.shape[1] - 1)
    chosen, parts = came[is_known], rng.random(int(is_known.sum()))
    if not len(chosen):
        return None
    every = np.arange(len(chosen))
    with np.errstate(divide="ignore"):
        logs = np.log(masses[is_known, :-1])
    counts, likelihoods = [], []
    for factor in FACTORS:
        law = np.exp((logs - logs.max(axis=1, keepdims=True)) / factor)
        law /= law.sum(axis=1, keepdims=True)
        own = law[every, chosen]
        u = np.cumsum(law, axis=1)[every, chosen] - (1 - parts) * own
        cells = np.clip((u * BINS).astype(np.int64), 0, BINS - 1)
        counts.append(np.bincount(cells, minlength=BINS))
        likelihoods.append(float(np.log(own).sum()))
    p_values = scipy.stats.chisquare(counts, axis=1).pvalue
    best, likeliest = int(p_values.argmax()), int(np.argmax(likelihoods))
    as_recorded = p_values[int(abs(FACTORS - 1).argmin())]
    agree = abs(FACTORS[likeliest] / FACTORS[best] - 1) <= NEAR
    is_found = p_values[best] > EXPLAINED and as_recorded < REFUTED and agree
    return float(FACTORS[likeliest]) if is_found else None
