"""Races: the index of the largest or smallest of several noises.

If E_1..E_n are independent standard exponentials, min E_i / w_i is attained by i with probability
w_i / sum(w). So do argmax w_i / E_i, argmax log w_i - log E_i (Gumbel noise) and any common monotone image of
those. A race is one decision. Afterwards its noises are no longer independent, so they are *spent*: whatever
else is asked of them raises. That covers engines which share one vector of exponentials between the rows of
several positions: their winners are pending integers, the code emits at most one of them, and the first that
is used finds the vector fresh. If a second one is used, the law of the pair is not known here, and it raises.
"""

import math
from collections.abc import Sequence

from spec_oracle.exact.interception.maps import Affine, Chain, GumbelForm, gumbel_form
from spec_oracle.exact.interception.run import Run, current_run
from spec_oracle.exact.interception.symbols import Noise, Pending, Scalar, Symbol

_SPENT = "the random number was used before, in a race; more than one use of such noise is not followed"


def race(scores: Sequence[Scalar], *, largest: bool) -> Pending:
    """Return the index of the largest (or smallest) score, decided when first used.

    Equal races (same noises, same functions of them) give the same answer.
    """
    run = current_run()
    key = (largest, *((s.draw, s.chain) if isinstance(s, Noise) else s for s in scores))
    if any(isinstance(part, Symbol) or part != part for part in key):  # noqa: PLR0124  (not a number)
        run.cannot_follow("race", "a score is neither a number nor noise")
    if key not in run.races:
        run.races[key] = Pending(lambda: _winner(run, list(scores), largest=largest))
    winner: Pending = run.races[key]
    return winner


def _winner(run: Run, scores: list[Scalar], *, largest: bool) -> int:
    runners = _possible_winners(scores, largest=largest)
    if len(runners) == 1:
        return runners[0]
    noises = [scores[index] for index in runners]
    if not all(isinstance(noise, Noise) for noise in noises):
        run.cannot_follow("race", "a number competes with noise on both sides of it")
    draws = [noise.draw for noise in noises]
    if any(draw.spent for draw in draws):
        run.cannot_follow("race", _SPENT)
    if len(set(draws)) < len(draws) or not all(draw.is_fresh for draw in draws):
        run.cannot_follow("race", "its random numbers were compared before, or one takes part twice")
    weights = _race_weights([noise.chain for noise in noises], largest=largest)
    if weights is None:
        run.cannot_follow("race", "the scores are not exponential or Gumbel noise with weights")
    winner = run.decide(weights)
    for draw in draws:
        draw.spent = _SPENT
    return runners[winner]


def _possible_winners(scores: list[Scalar], *, largest: bool) -> list[int]:
    """Return the indices that win with positive probability; of several numbers the best one, the first."""
    sign = 1 if largest else -1
    numbers = [index for index, score in enumerate(scores) if not isinstance(score, Noise)]
    best = max(numbers, key=lambda index: sign * scores[index], default=None)
    bounds = {}
    for index, score in enumerate(scores):
        if isinstance(score, Noise):
            low, high = sorted(sign * end for end in score.bounds)
            bounds[index] = (low, high)
        elif index == best:
            bounds[index] = (sign * score, sign * score)
    return [
        index
        for index, (_, high) in bounds.items()
        if not any(high <= low for other, (low, _) in bounds.items() if other != index)
    ]


def _race_weights(chains: list[Chain], *, largest: bool) -> list[float] | None:
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
        chains = [chain[:-1] for chain in chains]


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
