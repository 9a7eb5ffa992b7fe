"""Guards of noise against zeros, as ``+ 1e-10``: races are run without them, and what they change is bounded.

``clamp(min=1e-10)`` changes a noise with the probability that it is smaller: it is left away where it is met
(`algebra`). What is added shifts the noise everywhere: comparisons keep it, and a race, which has a closed
form without it only, leaves it away. A shift by e changes the distribution of a noise by e times its largest
density at most, in total variation, and the winner of a race by the sum over its noises.
"""

import math
from functools import lru_cache
from typing import Final

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.maps import Affine, Chain, Exp, Log
from spec_oracle.exact.interception.run import MOST_GUARDED

_PLACES: Final = [10.0**-power for power in range(6, 1, -1)] + [n / 50 for n in range(1, 50)]
_UNIFORMS: Final = [*_PLACES, *(1 - place for place in reversed(_PLACES[:5]))]
"""Where the density of a noise is looked at."""

_MARGIN: Final = 1.1
"""Factor for what lies between these places."""


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
            case Log():
                kept = maps.log(kept)
            case Exp():
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
