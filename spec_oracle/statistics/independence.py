"""Independence of repeated draws of one unknown law: exact tests, and what they detect.

N calls of C requests each, all alike, bring outcomes x[n, c]. If requests ignore each other they are
independent draws of one law, and no more is needed, no law and no limit theorem: their *fair signs*, products
of these at every distance, and *coincidences* are binomial (docs/theory.md, "Statistics"). Sharing all random
numbers with probability c makes two equal requests equal with probability c + (1 - c) k.

>>> rng = np.random.default_rng(0)
>>> x, y = rng.integers(10, size=(2, 50, 200))
>>> x[:, 64:128], y[:, 64:128] = x[:, :64], y[:, :64]
>>> sums, edges = lagged_products(fair_signs(x, y))
>>> p_values = fair_coin_p_values(sums[0, 1:200], edges[0, 1:200])
>>> int(p_values.argmin()) + 1, bool(p_values.min() < 1e-100)
(64, True)
"""

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from spec_oracle.arrays import Floats, Integers
from spec_oracle.statistics.power import DEFAULT_MISS


def fair_signs(first: Integers, second: Integers) -> NDArray[np.int8]:
    """Return sign(first - second), elementwise."""
    return np.asarray(np.sign(first - second), dtype=np.int8)


def lagged_products(signs: NDArray[np.int8], later_from: int = 0) -> tuple[Integers, Integers]:
    """Return sums of products of signs [..., N, C] at every distance, and how many products are not 0.

    Both int [..., N, D], D >= 2 C: entry (n, c) belongs to pairs of places n rows and c columns apart, c - D
    columns where c >= C. The later place of a pair lies in columns from ``later_from`` on.
    """
    shape = [scipy.fft.next_fast_len(2 * size) for size in signs.shape[-2:]]
    rows, columns = signs.shape[-2:]

    def correlated(values: NDArray[np.int8]) -> Integers:
        later = np.where(np.arange(columns) < later_from, 0, values)
        spectrum = np.conj(scipy.fft.rfft2(values, shape)) * scipy.fft.rfft2(later, shape)
        return np.asarray(np.rint(scipy.fft.irfft2(spectrum, shape)[..., :rows, :]), dtype=np.int64)

    return correlated(signs), correlated(np.abs(signs))


def fair_coin_p_values(sums: Integers, edges: Integers) -> Floats:
    """Return exact two-sided p-values for sums of ``edges`` fair signs; conservative, since discrete."""
    heads = (edges + np.abs(sums)) // 2
    p_values = np.ones(sums.shape)
    some = heads > 0
    p_values[some] = 2 * scipy.special.betainc(heads[some], edges[some] - heads[some] + 1, 0.5)
    return np.minimum(p_values, 1.0)


def coincidence_bound(outcomes: Integers, alpha: float) -> float:
    """Return an upper bound of how often two independent outcomes are equal; it fails with rate ``alpha``.

    ``outcomes`` int [N, C]. The pairs that bound it are a column apart, in rows 2 n and 2 n + 1.
    """
    even = len(outcomes) // 2 * 2
    equal = outcomes[:even:2] == np.roll(outcomes[1:even:2], 1, axis=1)
    return _upper_bound(int(equal.sum()), equal.size, alpha)


def _upper_bound(heads: int, coins: int, alpha: float) -> float:
    """Upper confidence bound (Clopper-Pearson) of the chance of heads."""
    return float(scipy.special.betainccinv(heads + 1, coins - heads, alpha)) if heads < coins else 1.0


def coincidences(outcomes: Integers) -> Integers:
    """Return in how many rows every two columns of outcomes int [N, C] are equal, int [C, C], 0 for c, c."""
    columns = outcomes.shape[1]
    equal = np.zeros((columns, columns), dtype=np.int64)
    for row in outcomes:
        equal += row[:, None] == row
    np.fill_diagonal(equal, 0)
    return equal


def coincidence_p_value(agreeing: int, pairs: int, bound: float) -> float:
    """Return P(Binomial(pairs, bound) >= agreeing)."""
    return float(scipy.special.betainc(agreeing, pairs - agreeing + 1, bound)) if agreeing > 0 else 1.0


def _needed(alpha: float, coins: int, chance: float) -> int:
    """Return the smallest number of heads that so many coins show with probability ``alpha`` at most."""
    too_few, enough = 0, coins + 1
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if coincidence_p_value(middle, coins, chance) <= alpha:
            enough = middle
        else:
            too_few = middle
    return enough


def _missed(needed: int, coins: int, chance: float) -> float:
    """Return P(Binomial(coins, chance) < needed)."""
    return float(scipy.special.betaincc(needed, coins - needed + 1, chance)) if needed <= coins else 1.0


def coupling_found_by_coincidences(
    pairs: int, outcomes: Integers, *, alpha: float, miss: float = DEFAULT_MISS
) -> float:
    """Return the smallest coupling c that shows in ``pairs`` pairs, infinite where none does.

    ``alpha`` is the rate of one test, and of the bound that it uses; c is the probability with which two
    requests share all their random numbers. ``outcomes`` int [N, C] give the chance of a coincidence; half of
    ``miss`` is for a bound that comes out too high.
    """
    chance, coins = float((_law(outcomes) ** 2).sum()), outcomes.size // 2
    bound = _upper_bound(_needed(miss / 2, coins, chance) - 1, coins, alpha)
    needed = _needed(alpha, pairs, bound)
    return _smallest(lambda c: _missed(needed, pairs, c + (1 - c) * chance), miss / 2)


def coupling_found_by_signs(
    pairs: int, outcomes: Integers, *, alpha: float, miss: float = DEFAULT_MISS
) -> float:
    """Return the smallest coupling c, as above, that shows in products of ``pairs`` pairs of signs.

    A sign is that of two calls, so that both share with probability c^2, and the product is 1 unless they
    tie. One of both shares with probability 2 c (1 - c), when the product has the mean square of
    P(Y < X | X) - P(Y > X | X). With a single outcome nothing shows.
    """
    law = _law(outcomes)
    if law.size == 1:
        return math.inf
    lead = np.cumsum(law) - law - (1 - np.cumsum(law))
    of_one, of_both = float(law @ lead**2), float(1 - law @ law)

    def missed(c: float) -> float:
        one, both, none = 2 * c * (1 - c), c**2, (1 - c) ** 2
        counted = both * of_both + one * float(law @ (1 - law) ** 2) + none * of_both**2
        coins = int(pairs * counted)
        heads = (1 + (both * of_both + one * of_one) / counted) / 2
        return _missed(_needed(alpha / 2, coins, 0.5), coins, min(heads, 1.0))

    return _smallest(missed, miss)


def _law(outcomes: Integers) -> Floats:
    counts = np.unique(outcomes, return_counts=True)[1]
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _smallest(missed: Callable[[float], float], miss: float) -> float:
    """Bisect for the coupling at which the chance to miss it comes down to ``miss``."""
    if missed(1.0) > miss:
        return math.inf
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if missed(middle) <= miss else (middle, high)
    return high
