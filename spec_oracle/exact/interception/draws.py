"""Noise (a function of one uniform), and where the random functions of the libraries get their numbers.

*Invariant.* Given the decisions of a run so far, its draws are independent, and each is uniform on its
interval (`Draw.low`, `Draw.high`), except for draws that are spent. Comparing a noise with a number cuts the
interval of its draw in two; the lengths of the parts are the probabilities of the outcomes, and either part
keeps the invariant. So one draw that is used twice stays one draw. What would break the invariant spends
the draws (a race) or raises `CannotTraceError`.

Uniforms are idealised: real numbers in (0, 1), not multiples of 2^-24 or 2^-53, so that events of probability
zero under the ideal (u = 0, u equal to a threshold, ties) never happen, and a conversion between float64 and
float32 changes nothing. Numbers of lower precision are rounded exactly, and so are integers.

What a library computes from uniforms is written once, in `libraries`, for any `Source`: here they are
traced; `spec_oracle.exact.interception.edge_draws` puts extreme numbers in their place.
"""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from spec_oracle.exact.interception import maps, symbols
from spec_oracle.exact.interception.decisions import NEGLIGIBLE
from spec_oracle.exact.interception.run import Afterwards, OwnRandom, active_run, current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol
from spec_oracle.exact.representatives import OPEN, Law

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_OF_A_STEP: Final = 16
"""Noises of one array that count as one step: a race at a full vocabulary has one for each token."""

LARGEST_RANGE: Final = 4096
"""Most integers between which a random number is decided."""

_MANY_SEEDS: Final = 2**24
"""Values of a random seed from which on two of them are taken to differ."""


class Draw:
    """One uniform number on (low, high), given the decisions so far.

    ``spent`` says what used it up; ``ask`` answers comparisons instead when it leads a product of uniforms.
    """

    __slots__ = ("ask", "high", "low", "spent")

    def __init__(self, *, is_counted: bool = True) -> None:
        self.low = 0.0
        self.high = 1.0
        self.spent = ""
        self.ask: Callable[[float], bool] | None = None
        if is_counted:
            current_run().step()

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known about it."""
        return self.low == 0.0 and self.high == 1.0 and not self.spent and self.ask is None

    def is_below(self, bound: float) -> bool:
        """Decide whether the uniform is below ``bound``, and narrow its interval accordingly."""
        if self.ask is not None:
            return self.ask(bound)
        share = (bound - self.low) / (self.high - self.low)
        if share <= NEGLIGIBLE:
            return False
        if share >= 1 - NEGLIGIBLE:
            return True
        below = current_run().decide((share, 1 - share)) == 0
        if below:
            self.high = bound
        else:
            self.low = bound
        return below

    def rank(self, bounds: Law) -> int:
        """Decide how many of the ``bounds``, which ascend, are below the uniform, and narrow its interval."""
        edges = np.concatenate([[self.low], np.clip(bounds, self.low, self.high), [self.high]])
        number = current_run().decide(np.diff(edges))
        if number != OPEN:
            self.low, self.high = float(edges[number]), float(edges[number + 1])
        return number


Computed: TypeAlias = Callable[[float], float]
"""From a uniform to the value of a noise, rounded as the foreign code rounds it."""


class Noise(Symbol):
    """A monotone function, ``chain``, of one uniform, ``draw``.

    ``computed`` is known only of what is computed in float64 all the way.
    """

    __slots__ = ("chain", "computed", "draw")

    def __init__(self, draw: Draw, chain: maps.Chain, computed: Computed | None = None) -> None:
        self.draw = draw
        self.chain = chain
        self.computed = computed

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What it passes for."""
        return int if maps.is_integral(self.chain) else symbols.DOUBLE

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range of its value, given the decisions so far."""
        ends = (maps.value_at(self.chain, self.draw.low), maps.value_at(self.chain, self.draw.high, -1))
        return min(ends), max(ends)

    def settled(self, operation: str) -> float:
        """Draw its value if the run is over; raises `CannotTraceError` in one."""
        run, draw = current_run(), self.draw
        if not isinstance(run, Afterwards) or draw.spent:
            return super().settled(operation)
        draw.low = run.between(draw.low, draw.high)
        draw.high = math.nextafter(draw.low, 1.0)
        return maps.value_at(self.chain, draw.low)

    def is_below(self, bound: float, *, inclusive: bool = False) -> bool:
        """Decide whether the value is below ``bound`` (at most that, if ``inclusive``)."""
        current_run().step()
        if self.draw.spent:
            current_run().cannot_trace("comparison", self.draw.spent)
        cut, increasing = maps.threshold(self.chain, bound, inclusive=inclusive)
        if math.isnan(cut):
            cut = self._first_beyond(bound, inclusive=inclusive, increasing=increasing)
        return self.draw.is_below(cut) == increasing

    def share_below(self, bound: float) -> float:
        """Return the probability that the value is below ``bound``, given the decisions so far."""
        cut, increasing = maps.threshold(self.chain, bound)
        share = min(max((cut - self.draw.low) / (self.draw.high - self.draw.low), 0.0), 1.0)
        return share if increasing else 1.0 - share

    def _first_beyond(self, bound: float, *, inclusive: bool, increasing: bool) -> float:
        """Return the uniform at which a comparison turns, by bisection on what the code computes.

        Functions that are rounded correctly stay monotone, so that there is one such place.
        """
        compute = self.computed
        if compute is None:
            current_run().cannot_trace("comparison", f"rounding decides whether it equals {bound}")
        low, high = self.draw.low, self.draw.high
        while low < (middle := (low + high) / 2) < high:
            with np.errstate(all="ignore"):
                value = compute(middle)
            if (value <= bound if inclusive else value < bound) == increasing:
                low = middle
            else:
                high = middle
        return high


_MOST_FORMULAS: Final = 64
_FORMULAS: Final[dict[tuple[object, maps.Chain], tuple[maps.Chain, Computed | None]]] = {}
"""By what makes noises of one formula, and its chain: the chain, and what computes the noise."""


def alike(make: Callable[[], Scalar], count: int) -> list[Scalar]:
    """Return the results of so many calls of ``make``, which draws one noise by one formula: made once."""
    formula = (make.func, make.args) if isinstance(make, partial) else make
    if count < 2:
        return [make() for _ in range(count)]
    return _drawn_once((formula, count), lambda: _several(make, formula, count))


def _several(make: Callable[[], Scalar], formula: object, count: int) -> list[Scalar]:
    first = make()
    if isinstance(first, Noise) and first.draw.is_fresh:
        current_run().step(count // _OF_A_STEP)
        # The same objects in all runs: what follows from them is known (`comparisons.at_once`).
        if len(_FORMULAS) >= _MOST_FORMULAS:
            _FORMULAS.clear()
        chain, computed = _FORMULAS.setdefault((formula, first.chain), (first.chain, first.computed))
        return [Noise(Draw(is_counted=False), chain, computed) for _ in range(count)]
    return [first, *(make() for _ in range(count - 1))]


def low_precision(noise: Noise, step: maps.Rounded) -> Noise:
    """Return the noise rounded to a number format."""
    inner = noise.computed
    computed = None if inner is None else lambda uniform: np.float64(step.at(float(inner(uniform))))
    return Noise(noise.draw, maps.rounded(noise.chain, step), computed)


def single(value: Scalar) -> Scalar:
    """Return a value in float32: as a real number a noise stays what it is."""
    is_new = isinstance(value, Noise) and value.computed is not None
    return Noise(value.draw, value.chain) if is_new else value


class _Tape:
    """What a call drew from a generator: each request with its result, in order; ``name`` says by which call.

    Once the call ``is_over``, its requests are given the same results again.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[tuple[object, Any]] = []
        self.place = 0
        self.is_over = self._is_making = False

    def result(self, request: object, make: Callable[[], T]) -> T:
        """Return the result of the next request, which ``make`` makes at first."""
        if self._is_making:
            return make()
        if self.place == len(self.items) and not self.is_over:
            self._is_making = True
            try:
                self.items.append((request, make()))
            finally:
                self._is_making = False
        asked, result = self.items[self.place] if self.place < len(self.items) else (None, None)
        self.place += 1
        if asked != request:
            _two_at_once()
        return cast("T", result)


def _two_at_once() -> NoReturn:
    reason = "another generator of equal seed, or a copy, draws in another way from the same numbers"
    current_run().cannot_trace("random number", reason)


def from_stream(position: object, name: str, draw: Callable[[], T]) -> T:
    """Return what ``draw`` returns, which stands for a call of that name of a generator's.

    ``position`` is where the generator was in its stream: some bits that it drew itself. Equal positions, of
    generators of equal seeds, of copies, or where a state was set back, give equal numbers. Raises
    `CannotTraceError` where calls at one position do not ask for the same.
    """
    run = active_run.get()
    if run is None or run.tape is not None or not isinstance(source(), Traced):
        return draw()
    tape: _Tape = run.tapes.setdefault(position, _Tape(name))
    run.tape, tape.place = tape, 0
    try:
        result = draw()
    finally:
        run.tape = None
    if tape.name != name or (tape.is_over and tape.place < len(tape.items)):
        _two_at_once()
    tape.is_over = True
    return result


def _drawn_once(request: object, make: Callable[[], T]) -> T:
    """Return what ``make`` draws; for another generator at the same position, the same."""
    run = active_run.get()
    return make() if run is None or run.tape is None else cast("_Tape", run.tape).result(request, make)


_seeds: Final = OwnRandom()


def seed_of(seed: object) -> object:
    """Return a seed as code gives it; for a random number without a value, a number that stands for it.

    Equal random numbers have equal ones. Raises `CannotTraceError` for a random number of few values.
    """
    if not isinstance(seed, Noise):
        return seed.settled("seed") if isinstance(seed, Symbol) else seed
    low, high = seed.bounds
    if not maps.is_continuous(seed.chain) and high - low < _MANY_SEEDS:
        current_run().cannot_trace("seed", f"one of {high - low:.0f} random numbers may be drawn twice")
    return current_run().seeds.setdefault((seed.draw, seed.chain), _seeds.getrandbits(32))


class Source(Protocol):
    """Where the random functions of the libraries get their numbers."""

    def uniform(self, bits: int = 53, *, zero: bool = True) -> Scalar:
        """Return a multiple of 2^-bits in [0, 1), or in (0, 1) unless ``zero`` is possible."""

    def integer(self, count: int) -> Scalar:
        """Return one of 0..count-1, all equally likely."""

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Return an index in proportion to the weights."""

    def later(self, choose: Callable[[], int]) -> Scalar:
        """Return what ``choose`` returns, at once or when it is first used."""

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:
        """Return what stands in for the random function ``real``, which has no formula here."""


class Traced:
    """Enumerated decisions."""

    def uniform(self, bits: int = 53, *, zero: bool = True) -> Noise:  # noqa: ARG002  (idealised)
        """Draw a uniform on (0, 1); of low precision as torch does, rounded, with 0 in the place of 1."""
        formats = {11: maps.HALF, 8: maps.BRAIN}
        chain = (formats[bits]._replace(wraps=0.5 ** (bits + 1)),) if bits in formats else maps.IDENTITY
        make = partial(Noise, chain=chain, computed=np.float64 if bits == 53 else None)
        return _drawn_once(("uniform", bits), lambda: make(Draw()))

    def integer(self, count: int) -> Scalar:
        """Draw an integer, decided when first used; of a long range as the integer part of a uniform."""
        if count <= LARGEST_RANGE:  # it may serve as a coin: none of its values stands for others
            decide = partial(self.later, lambda: current_run().decide(np.ones(count), in_full=True))
            return _drawn_once(("integer", count), decide)
        chain = maps.floor(maps.affine(maps.IDENTITY, 0.0, float(count)))
        return _drawn_once(("integer", count), lambda: Noise(Draw(), chain))

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Decide at once."""
        return current_run().decide(weights)

    def later(self, choose: Callable[[], int]) -> Scalar:
        """Decide when first used; at once where that comes next, which spares all that moves it about."""
        current_run().step()
        run = active_run.get()
        if run is None:
            return Pending(choose)
        decided, is_next = run.later(choose)
        return decided() if is_next else Pending(decided)

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002
        """Refuse."""

        def refuse(*_: P.args, **__: P.kwargs) -> R:
            current_run().cannot_trace(name, "this random function is not supported")

        return refuse


active_source: ContextVar[Source] = ContextVar("source of random numbers", default=Traced())  # noqa: B039


def source() -> Source:
    """Return the source in use."""
    return active_source.get()


def integer(count: int) -> Scalar:
    """Draw one of 0..count-1; a short range is decided."""
    number = source().integer(count)
    return number if isinstance(number, Noise) else int(number)


def categorical(weights: Sequence[float] | Law) -> Scalar:
    """Draw an index in proportion to ``weights``.

    Raises ValueError, as the libraries do, for weights that are negative, not finite, or all zero.
    """
    law = np.asarray(weights, dtype=np.float64)
    if not ((law >= 0).all() and 0 < law.sum() < math.inf):
        raise ValueError(f"invalid categorical weights: {weights}")
    if np.count_nonzero(law) == 1:
        return int(law.argmax())
    return _drawn_once(("index", law.tobytes()), lambda: source().later(lambda: source().decide(law)))


def distinct(weights: Sequence[float] | Law, count: int) -> list[Scalar]:
    """Draw ``count`` different indices one by one, each in proportion to the weights that are left."""
    drawn: list[Scalar] = []

    def choose(earlier: list[Scalar]) -> int:
        left = np.array(weights, dtype=np.float64)
        left[[int(index) for index in earlier]] = 0.0
        return source().decide(left)

    def draw() -> list[Scalar]:
        for position in range(count):
            drawn.append(source().later(partial(choose, drawn[:position])))
        return drawn

    return _drawn_once(("indices", count, np.asarray(weights, dtype=np.float64).tobytes()), draw)
