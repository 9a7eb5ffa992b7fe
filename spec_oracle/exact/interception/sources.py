"""Sources of random numbers for the libraries' random functions, and which numbers two calls share.

What a library computes from uniforms is written once, in `libraries`, for any source: `Traced` has decisions,
`spec_oracle.exact.interception.edge_draws` extreme numbers.

A real generator moves in each call that is traced: some bits that it draws say where it is in its stream. Two
calls at the same place, of generators of equal seeds, of copies, or of one whose state was set back, draw the
same numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final, NoReturn, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.draws import LARGEST_RANGE, Draw, Noise
from spec_oracle.exact.interception.run import OwnRandom, active_run, current_run, is_traced
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol
from spec_oracle.exact.representatives import Law

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_OF_A_STEP: Final = 16
"""Noises of one array that count as one step: a race at a full vocabulary has one for each token."""

_MANY_SEEDS: Final = 2**24
"""Values of a random seed from which on two of them are taken to differ."""

_MANY_NOISES: Final = 64
"""Noises of one array from which on they are made when one of them is looked at."""

_KEPT: Final = 64
"""The longest weights of which is kept whether they leave a choice: runs ask for the same again and again."""

_MOST_FORMULAS: Final = 64
_FORMULAS: Final[dict[maps.Chain, maps.Chain]] = {}
"""Chains of noises of one formula, by themselves."""


class FreshNoises(Sequence[Scalar]):
    """So many noises of one formula, made when one of them is looked at: code may overwrite all of them."""

    def __init__(self, chain: maps.Chain, count: int) -> None:
        self._chain, self._count = chain, count
        self._made: list[Noise] = []

    @property
    def made(self) -> list[Noise]:
        """The noises."""
        if not self._made:
            self._made = [Noise(Draw(), self._chain) for _ in range(self._count)]
        return self._made

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self.made[place]

    def __iter__(self) -> Iterator[Noise]:
        return iter(self.made)


def alike(make: Callable[[], Scalar], count: int) -> Sequence[Scalar]:
    """Return the results of so many calls of ``make``, which draws one noise by one formula: made once."""
    formula = (make.func, make.args) if isinstance(make, partial) else make
    if count < 2:
        return [make() for _ in range(count)]
    return _drawn_once((formula, count), lambda: _several(make, count))


def _several(make: Callable[[], Scalar], count: int) -> Sequence[Scalar]:
    first = make()
    if isinstance(first, Noise) and first.draw.is_fresh:
        current_run().step(count // _OF_A_STEP)
        # The same objects in all runs: what follows from them is known (`comparisons.computed`).
        if len(_FORMULAS) >= _MOST_FORMULAS:
            _FORMULAS.clear()
        chain = _FORMULAS.setdefault(first.chain, first.chain)
        noises = FreshNoises(chain, count)
        return noises if count >= _MANY_NOISES else noises.made
    return [first, *(make() for _ in range(count - 1))]


def _noise(chain: maps.Chain) -> Noise:
    """Return a function of a new uniform, which is a step of the run."""
    current_run().step()
    return Noise(Draw(), chain)


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
        if self.place == len(self.items):
            _two_at_once()
        asked, result = self.items[self.place]
        if asked != request:
            _two_at_once()
        self.place += 1
        return cast("T", result)


def _two_at_once() -> NoReturn:
    reason = "another generator of equal seed, or a copy, draws in another way from the same numbers"
    current_run().cannot_trace("random number", reason)


def from_stream(position: object, name: str, draw: Callable[[], T]) -> T:
    """Return the result of ``draw``, which takes the place of a generator's method of that ``name``.

    ``position`` is where the generator was in its stream: some bits that it drew itself. Equal positions, of
    generators of equal seeds, of copies, or where a state was set back, give equal numbers. Raises
    `CannotTraceError` where calls at one position do not ask for the same.
    """
    run = active_run.get()
    if run is None or run.tape is not None or not isinstance(source(), Traced):
        return draw()
    tape: _Tape | None = run.tapes.get(position)
    if tape is None:
        tape = run.tapes[position] = _Tape(name)
    run.tape, tape.place = tape, 0
    tape.name = tape.name if tape.items else name
    try:
        result = draw()
    finally:
        run.tape = None
    if tape.place and (tape.name != name or tape.place < len(tape.items)):  # what is certain draws nothing
        _two_at_once()
    tape.is_over = bool(tape.items)
    return result


def _drawn_once(request: object, make: Callable[[], T]) -> T:
    """Return what ``make`` draws; generators at the same position of a stream get the same."""
    run = active_run.get()
    return make() if run is None or run.tape is None else cast("_Tape", run.tape).result(request, make)


_seeds: Final = OwnRandom()


def seed_of(seed: object) -> object:
    """Return a seed as the code gives it, or a number in place of a random number without a value.

    Equal random numbers have equal ones. Raises `CannotTraceError` for a random number of few values.
    """
    if not isinstance(seed, Noise):
        return seed.settled("seed") if isinstance(seed, Symbol) else seed
    low, high = seed.bounds
    if not maps.is_continuous(seed.chain) and high - low < _MANY_SEEDS:
        current_run().cannot_trace("seed", f"one of {high - low:.0f} random numbers may be drawn twice")
    return current_run().seeds.setdefault((seed.draw, seed.chain), _seeds.getrandbits(32))


class Traced:
    """A `Source` of enumerated decisions."""

    def uniform(self, bits: int = 53, *, zero: bool = True) -> Scalar:  # noqa: ARG002  (idealised)
        """Draw a uniform on (0, 1); of others a multiple of 2^-bits in [0, 1), not 0 unless ``zero``."""
        return _drawn_once(("uniform", bits), lambda: _noise(maps.IDENTITY))

    def integer(self, count: int) -> Scalar:
        """Draw an integer, decided when first used; of a long range as the integer part of a uniform."""
        if count <= LARGEST_RANGE:  # it may serve as a coin: none of its values stands for others
            decide = partial(self.later, lambda: current_run().decide(np.ones(count), in_full=True))
            return _drawn_once(("integer", count), decide)
        chain = maps.floor(maps.affine(maps.IDENTITY, 0.0, float(count)))
        return _drawn_once(("integer", count), lambda: _noise(chain))

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Decide at once for an index, in proportion to the weights."""
        return current_run().decide(weights)

    def later(self, choose: Callable[[], int]) -> Scalar:
        """Decide by ``choose``: when first used, or at once where that comes next, which spares moving it."""
        current_run().step()
        run = active_run.get()
        if run is None:
            return Pending(choose)
        decided, is_next = run.later(choose)
        return decided() if is_next else Pending(decided)

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002
        """Refuse the random function ``real``, which has no formula here."""

        def refuse(*_: P.args, **__: P.kwargs) -> R:
            current_run().cannot_trace(name, "this random function is not supported")

        return refuse


class Ordinary:
    """A `Source` of random numbers as libraries have them; seeds that code gives count for nothing."""

    def __init__(self, seed: int) -> None:
        self._ordinary = OwnRandom(seed)

    def multiple(self, first: int, last: int) -> int:
        """Draw a whole number."""
        return self._ordinary.randint(first, last)

    def uniform(self, bits: int = 53, *, zero: bool = True) -> float:
        """Draw a multiple of 2^-bits."""
        return float(self.multiple(int(not zero), 2**bits - 1) / 2**bits)

    def integer(self, count: int) -> int:
        """Draw one of 0..count-1."""
        return self._ordinary.randrange(count)

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Draw an index by inversion, as numpy and ``random`` do: the first or last possible at an edge."""
        cumulative = np.cumsum(weights)
        return int(np.searchsorted(cumulative / cumulative[-1], self.uniform(), side="right"))

    def later(self, choose: Callable[[], int]) -> int:
        """Choose at once."""
        return choose()

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002
        """Leave it as it is."""
        return real


Source: TypeAlias = Traced | Ordinary
"""Where the random functions of the libraries get their numbers."""

_TRACED: Final = Traced()
active_source: ContextVar[Source] = ContextVar("source of random numbers", default=_TRACED)


def source() -> Source:
    """Return the source in use."""
    return active_source.get()


def is_asked() -> bool:
    """Whether the libraries draw from the source now: in a run, or from a source that is not traced."""
    return is_traced() or source() is not _TRACED


def integer(count: int) -> Scalar:
    """Draw one of 0..count-1; a short range is decided."""
    number = source().integer(count)
    return number if isinstance(number, Noise) else int(number)


def categorical(weights: Sequence[float] | Law) -> Scalar:
    """Draw an index in proportion to ``weights``.

    Raises ValueError, as the libraries do, for weights that are negative, not finite, or all zero.
    """
    law = np.asarray(weights, dtype=np.float64)
    only = _kept_only_index(law.tobytes()) if law.size <= _KEPT else _only_index(law)
    if only == _INVALID:
        raise ValueError(f"invalid categorical weights: {weights}")
    if only is not None:
        return only
    return _drawn_once(("index", law.tobytes()), lambda: source().later(lambda: source().decide(law)))


_INVALID: Final = -1


def _only_index(law: Law) -> int | None:
    """Return the only index that weights leave, None for several, `_INVALID` for what are no weights."""
    if not ((law >= 0).all() and 0 < law.sum() < math.inf):
        return _INVALID
    return int(law.argmax()) if np.count_nonzero(law) == 1 else None


@lru_cache(maxsize=4096)
def _kept_only_index(weights: bytes) -> int | None:
    return _only_index(np.frombuffer(weights))


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
