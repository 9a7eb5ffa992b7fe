"""Exact distributions of coupled drafts: who wins races that read the same exponential noise.

Path k has independent standard exponentials E^k_i. It drafts X_k = argmin_i E^k_i / q_i, and of the R paths
that race the emitted token is Y = argmin_i min_k E^k_i / p_i (`lab.coupling.list_coupling`).

**Derivation.** Let path w hold the noise that wins for token j, at the time t = E^w_j / p_j. All other E^k_i
exceed t p_i, and by memorylessness what they exceed it by is exponential again and independent. The times
E^k_i / p_i of R paths have the total rate R, so t has the density R e^{−Rt}, and (w, j) wins with probability
p_j / R. Given (w, j, t) the drafts of the paths are independent. A path that does not hold the winner drafts
a if its race among the E_i / q_i ends at s = t x with token a. That takes E_a > t p_a, which is x > r_a with
r_a = p_a / q_a:

    P(X = a | t) = q_a t ∫_{r_a}^∞ e^{−t g(x)} dx,       g(x) = Σ_i (x q_i − p_i)+                         (1)

g is convex and linear between the ratios r_i, with the slope Q(x) = Σ q_i over r_i <= x. So (1) is a sum over
these pieces, of q_a / Q (e^{−t g(start)} − e^{−t g(end)}). For path w the race ends at x = r_j with token j
if no other has ended it before: the integral of (1) stops at r_j, and

    P(X_w = j | t) = e^{−t g(r_j)},      r_j = ∞ where q_j = 0.                                            (2)

Given t everything is a sum of exponentials in t, products of such sums are again, and ∫ e^{−Rt} e^{−gt} dt =
1 / (R + g): the joint distribution of all drafts and of Y is rational in p and q.

**One path.** 1 + g(x) = Σ_i max(x q_i, p_i), hence

    P(X = Y = j) = 1 / Σ_i max(q_i / q_j, p_i / p_j)                                                       (3)
    P(X = a, Y = b) = p_b q_a ∫ dx / (Σ_i max(x q_i, p_i))²   over x from r_a to r_b, 0 where r_a >= r_b   (4)

so a draft is only ever replaced by a token of larger p / q. The sum of (3) is at least (1 − d) / (1 + d),
d the total variation between p and q (arXiv 2408.07978).

**Several paths.** By (2) the path that holds the winner has drafted it with probability

    P(X_w = Y) = Σ_j p_j R / (R + g(r_j)) = Σ_j R / Σ_i [max(q_i / q_j, p_i / p_j) + (R − 1) p_i / p_j]    (5)

which is the list matching lemma's lower bound on P(some path drafted Y) (arXiv 2506.05632). What it lacks is
the chance that path w drafted another token and a different path drafted Y.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.arrays import Numbers
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import no_mass
from spec_oracle.exact.emission import EmissionLaw
from spec_oracle.toy import Instance

Row: TypeAlias = Sequence[Any]
Terms: TypeAlias = Mapping[tuple[Any, Any], Any]
"""Σ c e^{−gt} for each outcome, as {(outcome, g): c}; outcomes of independent paths are added."""


def coupled_law(target: Row, drafts: Sequence[Row]) -> dict[tuple[tuple[int, ...], int], Any]:
    """Return P(X_1, ..., X_K and Y), by ((x_1, ..., x_K), y), of K paths that all race.

    ``target`` [V] and ``drafts`` [K, V], one row for each path, are probabilities: rationals or floats.

    >>> from fractions import Fraction
    >>> third = Fraction(1, 3)
    >>> law = coupled_law([third, 2 * third], [[2 * third, third]])
    >>> {outcome: str(mass) for outcome, mass in law.items()}
    {((0,), 0): '1/3', ((0,), 1): '1/3', ((1,), 1): '1/3'}
    """
    return _joint(target, drafts, lambda draft, _: (draft,), ())


def matches_law(target: Row, draft: Row, active: int, racing: int) -> dict[tuple[int, int], Any]:
    """Return P(n active paths drafted Y, and Y), by (n, y).

    ``active`` of the ``racing`` paths are active, all with the rows ``target`` and ``draft`` [V].
    """
    return _joint(target, [draft] * active, lambda x, y: int(x == y), 0, bystanders=racing - active)


def list_matching_bound(target: Row, draft: Row, paths: int) -> Any:
    """Return (5), the probability that the path that holds the winner drafted it.

    It is the list matching lemma's lower bound on P(some path drafted Y). With one path it is that
    probability.
    """
    zero = target[0] * 0
    pairs = [(p, q) for p, q in zip(target, draft, strict=True) if p > 0 and q > 0]
    return sum((p * paths / (paths + _excess(target, draft, p / q)) for p, q in pairs), zero)


def _joint(
    target: Row,
    drafts: Sequence[Row],
    label: Callable[[int, int], Any],
    nothing: Any,
    *,
    bystanders: int = 0,
) -> dict[tuple[Any, int], Any]:
    """Return the joint distribution of the labels of the drafts, added up, and of Y.

    ``label(draft, Y)``; ``nothing`` is the sum of no labels. ``bystanders`` race besides, and what they
    drafted is left out.
    """
    one = target[0] * 0 + 1
    racing = len(drafts) + bystanders
    law: dict[tuple[Any, int], Any] = defaultdict(lambda: one * 0)
    for emitted, mass in enumerate(target):
        if not mass > 0:
            continue
        losing = [_labelled(_draft_terms(target, row), label, emitted) for row in drafts]
        winning = [_labelled(_draft_terms(target, row, emitted), label, emitted) for row in drafts]
        for winner in range(racing):
            weight: Terms = {(nothing, one * 0): one}
            for path, terms in enumerate(losing):
                weight = _product(weight, winning[path] if path == winner else terms)
            for (outcome, rate), coefficient in weight.items():
                law[outcome, emitted] += mass * coefficient / (racing + rate)
    return {outcome: mass for outcome, mass in sorted(law.items()) if mass}


def _labelled(terms: Terms, label: Callable[[int, int], Any], emitted: int) -> Terms:
    total: dict[tuple[Any, Any], Any] = {}
    for (draft, rate), coefficient in terms.items():
        key = label(draft, emitted), rate
        total[key] = total[key] + coefficient if key in total else coefficient
    return {key: coefficient for key, coefficient in total.items() if coefficient}


def _product(first: Terms, second: Terms) -> Terms:
    total: dict[tuple[Any, Any], Any] = {}
    for (one, rate), c in first.items():
        for (other, more), d in second.items():
            key = one + other, rate + more
            total[key] = total[key] + c * d if key in total else c * d
    return total


def _excess(target: Row, draft: Row, x: Any) -> Any:
    """Return g(x) of (1)."""
    pairs = zip(target, draft, strict=True)
    return sum((x * q - p for p, q in pairs if x * q > p), target[0] * 0)


def _draft_terms(target: Row, draft: Row, winner: int | None = None) -> Terms:
    """Return P(X = a | t) by token a: (1), and for the path that holds the ``winner`` up to r_j, with (2)."""
    ratio = {a: p / q for a, (p, q) in enumerate(zip(target, draft, strict=True)) if q > 0}
    end = None if winner is None else ratio.get(winner)
    edges = sorted({r for r in ratio.values() if end is None or r < end})
    terms: dict[tuple[int, Any], Any] = defaultdict(lambda: target[0] * 0)
    for start, stop in pairwise([*edges, end]):
        begun = [a for a, r in ratio.items() if r <= start]
        slope = sum(draft[a] for a in begun)
        for a in begun:
            terms[a, _excess(target, draft, start)] += draft[a] / slope
            if stop is not None:
                terms[a, _excess(target, draft, stop)] -= draft[a] / slope
    if winner is not None and end is not None:
        terms[winner, _excess(target, draft, end)] += 1
    return terms


def coupled_emission_law(instance: Instance, *, all_race: bool = False, exact: bool = True) -> EmissionLaw:
    """Return the distribution of what one call of list coupling emits, in rationals or in float64.

    Only the number of active paths matters at a node: the noise of the next position is fresh. ``all_race``
    as in `lab.coupling.list_coupling.ListCoupling`.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=1, num_paths=2)
    >>> law = coupled_emission_law(toy)
    >>> law.accepted_length_pmf, law.total_variation
    ((Fraction(5, 27), Fraction(22, 27)), Fraction(0, 1))
    """
    chosen = arithmetic(exact=exact)
    numbers = instance.exact if exact else instance.floats
    rows = [chosen.prepare(numbers.target.rows(depth)) for depth in range(instance.draft_length + 1)]
    masses = no_mass(numbers, rows[0])
    step = cache(matches_law)  # of this call only: a float and an equal rational are one key
    reached: dict[tuple[int, int], Any] = {(0, instance.num_paths): rows[0][0, 0] * 0 + 1}
    for depth in range(instance.draft_length):
        draft = chosen.prepare(numbers.draft.rows(depth))
        below: dict[tuple[int, int], Any] = defaultdict(lambda: rows[0][0, 0] * 0)
        for (node, active), mass in reached.items():
            racing = instance.num_paths if all_race else active
            law = step(tuple(rows[depth][node]), tuple(draft[node]), active, racing)
            for (matches, token), chance in law.items():
                child = node * instance.vocab_size + token
                if matches:
                    below[child, matches] += mass * chance
                else:
                    masses[depth][child] += mass * chance
        reached = below
    bonus: Numbers = masses[-1].reshape(-1, instance.vocab_size)
    for (node, _), mass in reached.items():
        bonus[node] += mass * rows[-1][node]
    return EmissionLaw(numbers, tuple(chosen.finish(np.asarray(mass)) for mass in masses))
