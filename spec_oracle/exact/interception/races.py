"""Races: the order of several noises, up to the index of the largest or smallest one.

Exponential noise, Gumbel noise and any common monotone image of those have a known winner (docs/theory.md,
"Enumeration"), and the places after the first are those of a race between the others. Each is one decision.
After the first place is decided, the noises are no longer independent. They are *spent*: the next places can
still be decided, any other use raises. That covers engines which share one vector of exponentials between the
rows of several positions: their winners are pending integers, the code emits at most one of them, and the
first one that is used finds the vector fresh. A second one raises: the law of the pair is not known here.

*Guards* of noise against zeros, such as ``+ 1e-10``, are left out of a race that has no closed form with
them. A shift by e changes the distribution of a noise by e times its largest density at most, in total
variation, and the winner of a race by the sum over its noises. ``clamp(min=1e-10)`` is left out by
`draws.is_clamp_left_out`. What it changes is counted where the noise decides something, in a race by
`changed_by_clamps`.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from operator import ne
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Objects
from spec_oracle.exact.errors import Line, here
from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.draws import IS_FRESH, Draw, Noise
from spec_oracle.exact.interception.maps import Affine, Chain, GumbelForm, gumbel_form
from spec_oracle.exact.interception.run import MOST_GUARDED, current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, any_symbol
from spec_oracle.exact.representatives import Law

_array, _empty = np.array, np.empty  # as they are when nothing is traced

_SPENT = "the random number was used before, in a race; more than one use of such noise is not traced"

_HARDLY: Final = 1e-6
"""Part of the values of a draw that a guard may exclude."""

_PLACES: Final = [10.0**-power for power in range(6, 1, -1)] + [n / 50 for n in range(1, 50)]
_UNIFORMS: Final = [*_PLACES, *(1 - place for place in reversed(_PLACES[:5]))]
"""Where the density of a noise is looked at."""

_MARGIN: Final = 1.1
"""Factor for what lies between these places."""


def places(scores: Objects, *, largest: bool, count: int = 1, none_wins: bool = False) -> Objects:
    """Return the first ``count`` places of each row of an object array [..., n], as pending integers.

    With ``none_wins``, the first place is that of the first score that is no number (NaN), if there is one.
    """
    found = _empty((*scores.shape[:-1], count), dtype=object)
    for row in np.ndindex(scores.shape[:-1]):
        some = scores[row].tolist()
        none = _no_numbers(some) if none_wins else []
        found[row] = none[:1] or ranking(some, largest=largest, count=count)
    return found


def _no_numbers(scores: Sequence[Scalar]) -> list[int]:
    """Return the places of scores that are no number (NaN)."""
    if set(map(type, scores)) == {Noise}:
        return []
    return [n for n, score in enumerate(scores) if type(score) is not Noise and bool(score != score)]  # noqa: PLR0124


def ranking(scores: Sequence[Scalar], *, largest: bool, count: int) -> list[Pending]:
    """Return the first indices in the order of their scores, the largest (or smallest) first.

    Equal numbers keep their order. Each place is decided when first used, and nothing is found out before:
    of most rows no place is used. Equal rankings give equal answers.
    """
    numbers = [score for score in scores if type(score) is not Noise]
    run = current_run()
    if any_symbol(numbers) or any(map(ne, numbers, numbers)):  # not a number
        run.cannot_trace("race", "a score is neither a number nor known random noise")
    order = cache(partial(_known_order, run.races, scores, largest=largest))
    line = here()[0]
    return [Pending(partial(_placed, order, number, line)) for number in range(count)]


def _known_order(races: dict[object, Any], scores: Sequence[Scalar], *, largest: bool) -> "_Order":
    """Return the order of scores that is in use among the ``races`` of a run, or a new one."""
    chains = [score.chain for score in scores if type(score) is Noise]
    # Chains are compared where draws and numbers are equal: their digests take longer than all else.
    draws = (largest, *(score.draw if type(score) is Noise else score for score in scores))
    alike: list[tuple[list[Chain], _Order]] = races.setdefault(draws, [])
    for known, order in alike:
        if known == chains:
            return order
    if not all(map(maps.is_continuous, chains)):
        current_run().cannot_trace("race", "ties are possible")
    alike.append((chains, _order(list(scores), largest=largest)))
    return alike[-1][1]


def _placed(order: "Callable[[], _Order]", number: int, line: Line) -> int:
    """Decide which index takes a place; errors name the line of the foreign code that ran the race."""
    run = current_run()
    before, run.line = run.line, line
    try:
        return order().place(number)
    finally:
        run.line = before


def _order(scores: list[Scalar], *, largest: bool) -> "_Order":
    """Return the order of scores, which has a closed form from the first place on, or from the last."""
    _forget_guards(scores)
    for from_last in (False, True):  # as for the largest of exponentials: begin at the other end
        order = _Order(scores, largest=largest != from_last, backwards=from_last)
        if not order.is_closed and (shift := _without_guards(scores)):
            plain, changed = shift
            order = _Order(plain, largest=largest != from_last, backwards=from_last, changed=changed)
        if order.is_closed:
            return order
    return order


def _forget_guards(scores: Sequence[Scalar]) -> None:
    """Let draws be fresh again that decisions narrowed by next to nothing, such as "not below 1e-10"."""
    used = [score.draw for score in scores if type(score) is Noise and not score.draw.is_fresh]
    for draw in dict.fromkeys(used):
        known = draw.low + 1.0 - draw.high
        if 0 < known <= _HARDLY and not draw.spent and draw.ask is None:
            current_run().leave_out(known)
            draw.narrow(0.0, 1.0)


def _without_guards(scores: list[Scalar]) -> tuple[list[Scalar], float] | None:
    """Return scores without what guards add to them, and the total variation that this makes at most.

    None where there is nothing, or where it would matter.
    """
    plain, changed = list[Scalar](), 0.0
    for score in scores:
        chain, change = unguarded(score.chain) if isinstance(score, Noise) else ((), 0.0)
        plain.append(Noise(score.draw, chain) if change else score)
        changed += change
    return (plain, changed) if 0 < changed <= MOST_GUARDED else None


@lru_cache(maxsize=4096)
def unguarded(chain: Chain) -> tuple[Chain, float]:
    """Return a chain without what guards add, and the total variation that they make at most."""
    kept: Chain = maps.IDENTITY
    change = 0.0
    for step in chain:
        match step:
            case Affine():
                plain, shift = _without_shift(kept, step)
                kept, change = maps.affine(kept, *plain), change + shift
            case "log":
                kept = maps.log(kept)
            case "exp":
                kept = maps.exp(kept)
            case _:
                return chain, 0.0
    return kept, change


def _without_shift(chain: Chain, step: Affine) -> tuple[Affine, float]:
    """Return a step behind a chain without a small shift, and the total variation that the shift makes.

    Of a uniform u, near u and 1 - u, its scale is left away, too.
    """
    offset, slope = step
    near = Affine(0.0, slope) if chain else Affine(float(slope < 0), math.copysign(1.0, slope))
    shift = abs((offset - near.offset) / slope) * _largest_density(chain) + abs(slope - near.slope)
    return (near, shift) if shift <= MOST_GUARDED else (step, 0.0)


@lru_cache(maxsize=256)
def _largest_density(chain: Chain) -> float:
    """Return the largest probability density of a noise, per unit of its value."""
    values = [maps.value_at(chain, uniform) for uniform in _UNIFORMS]
    pairs = zip(_UNIFORMS, _UNIFORMS[1:], values, values[1:], strict=False)
    return _MARGIN * max((v - u) / max(abs(y - x), 1e-300) for u, v, x, y in pairs)


_First: TypeAlias = tuple[list[int], list[float] | None, bool]
"""The possible winners of a first place, their weights, and whether the law of that place is known."""

_KNOWN: Final = maps.KeptResults[_First]()
"""First places of races of fresh noises."""


class _Order:
    """The order of scores, found place by place; ``backwards`` if places are counted from the last on.

    Guards that were left out of the scores make a total variation of at most ``changed``.
    """

    def __init__(self, scores: list[Scalar], *, largest: bool, backwards: bool, changed: float = 0.0) -> None:
        self._scores = scores
        self._largest = largest
        self._backwards = backwards
        self._changed = changed
        self._found: list[int] = []
        self._draws: set[Draw] = set()
        """The draws that this order has spent."""
        self._first = self._as_before() if self._are_fresh(scores) else self._found_first()

    @property
    def is_closed(self) -> bool:
        """Whether the law of the first place has a closed form."""
        return self._first[2]

    def _as_before(self) -> _First:
        """Return what is known of the first place; runs of the same code hold the same races."""
        chains = [score.chain for score in self._scores if type(score) is Noise]
        numbers = tuple(score for score in self._scores if type(score) is not Noise)
        places = tuple(id(score.chain) if type(score) is Noise else 0 for score in self._scores)
        key = self._largest, self._backwards, places, numbers
        return _KNOWN.result(key, chains, len(chains), self._found_first)

    def _found_first(self) -> _First:
        """Return what is known of the first place."""
        runners = self.possible_winners()
        chains = [score.chain for score in (self._scores[n] for n in runners) if type(score) is Noise]
        weights = _race_weights(tuple(chains), largest=self._largest) if chains else None
        is_closed = not chains or weights is not None
        return runners, weights if len(chains) == len(runners) else None, is_closed

    @staticmethod
    def _are_fresh(scores: Sequence[Scalar]) -> bool:
        """Whether nothing is known of any noise."""
        return all(map(IS_FRESH, [score for score in scores if type(score) is Noise]))

    def place(self, number: int) -> int:
        """Return the index that takes a place, once those before it are known."""
        wanted = len(self._scores) - 1 - number if self._backwards else number
        while len(self._found) <= wanted:
            self._found.append(self._next())
        return self._found[wanted]

    def _next(self) -> int:
        runners, weights, _ = self._first
        is_as_before = not self._found and self._are_fresh([self._scores[n] for n in runners])
        if not is_as_before:
            runners = self.possible_winners()
        if len(runners) == 1:
            return runners[0]
        noises = [self._scores[index] for index in runners]
        if not all(isinstance(noise, Noise) for noise in noises):
            current_run().cannot_trace("race", "a number competes with random numbers on both sides of it")
        draws = [noise.draw for noise in noises]
        if any(draw.spent and draw not in self._draws for draw in draws):
            current_run().cannot_trace("race", _SPENT)
        unused = self._draws.issuperset(draws) if self._draws else all(draw.is_fresh for draw in draws)
        if len(set(draws)) < len(draws) or not unused:
            current_run().cannot_trace(
                "race", "its random numbers were compared before, or one takes part twice"
            )
        if not is_as_before:
            weights = _race_weights(tuple(noise.chain for noise in noises), largest=self._largest)
        if weights is None:
            current_run().cannot_trace("race", "the scores are not weighted exponential or Gumbel noise")
        clamped = np.array([draw.guarded for draw in draws])
        changed = clamped.sum() if self._draws else changed_by_clamps(np.array(weights), clamped)
        if (left_out := float(changed) + self._changed) > 0:
            current_run().leave_out(left_out)
            self._changed = 0.0
        winner = current_run().decide(weights, _array(runners))
        for draw in draws:
            draw.spend(_SPENT)
        self._draws.update(draws)
        return winner

    def possible_winners(self) -> list[int]:
        """Return the indices that may take the next place; of several numbers only the best one."""
        sign = 1 if self._largest else -1
        rest = {n: score for n, score in enumerate(self._scores) if n not in self._found}
        numbers = {n: sign * score for n, score in rest.items() if type(score) is not Noise}
        best = max(reversed(numbers) if self._backwards else numbers, key=numbers.__getitem__, default=None)
        bounds = {
            n: sorted(sign * end for end in (score.bounds if type(score) is Noise else (score, score)))
            for n, score in rest.items()
            if type(score) is Noise or n == best
        }
        # A score that cannot rise above the lower bound of another one does not win.
        lows = sorted(((low, n) for n, (low, _) in bounds.items()), reverse=True)[:2]
        return [n for n, (_, high) in bounds.items() if not any(high <= low for low, m in lows if m != n)]


def changed_by_clamps(weights: Law, shares: Law) -> float:
    """Return a bound of the probability that clamps change who wins a race.

    Exponentials E_i race by E_i / w_i, with the ``weights`` w [n] and W their sum. A clamp changes E_i with
    probability s_i, ``shares`` [n]. If it raises E_i below c = -log(1 - s_i) to c, the winner can change only
    if i would have won, and another one lies below c / w_i, too: the chance is at most s_i c (W - w_i) / w_i,
    and at most that i wins, w_i / W. If it lowers E_i above -log s_i to that, i must win as late as that:
    s_i^(W / w_i). Two clamps that are met together add at most the square of the sum of s, and a factor.
    """
    active, every = (weights > 0) & (shares > 0), float(shares.sum())
    w, s, total = weights[active], shares[active], weights.sum()
    raised = np.minimum(np.minimum(s, w / total), -s * np.log1p(-s) * (total - w) / w)
    alone = float(np.maximum(raised, s ** (total / w)).sum())
    return min(every, alone * math.exp(every) + every**2)


@lru_cache(maxsize=4)
def _race_weights(chains: tuple[Chain, ...], *, largest: bool) -> list[float] | None:
    """Return the weights with which independent noises win, or None when the race has no closed form here."""
    while True:
        if len(set(chains)) == 1:
            return [1.0] * len(chains)
        forms = [gumbel_form(chain) for chain in chains]
        if None not in forms:
            return _gumbel_weights([form for form in forms if form is not None], largest=largest)
        if not all(chains) or len({chain[-1] for chain in chains}) > 1:
            return None
        step = chains[0][-1]
        largest ^= isinstance(step, Affine) and step.slope < 0
        chains = tuple(chain[:-1] for chain in chains)


def _gumbel_weights(forms: list[GumbelForm], *, largest: bool) -> list[float] | None:
    """Return the weights of a race between location_i + scale * log(E_i): exp(-location_i / scale)."""
    if len({form._replace(location=0.0) for form in forms}) > 1:
        return None
    scale = forms[0].scale
    largest ^= forms[0].sign < 0
    if (scale < 0) != largest:
        return None  # the largest of exponentials, not the smallest
    exponents = [-form.location / scale for form in forms]
    top = max(exponents)
    return [math.exp(exponent - top) for exponent in exponents]
