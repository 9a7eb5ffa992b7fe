"""Generators that code seeds by numbers of its own while it is traced: those of rows, in toy models.

An engine may draw each row where it needs it, by a generator that it seeds with the context. Such a row is no
random number of the completion. Which generators do so cannot be seen: one that is seeded by a counter of
requests looks alike. So all are traced at first; where that fails, those with own seeds are left untouched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spec_oracle.exact.interception.run import Run, active_run
from spec_oracle.exact.interception.symbols import TEXT, Symbol

ASKED: Final = range(1_900_000_000, 1_901_000_000)
"""Seeds of requests where generators with own seeds are untouched; few engines would choose them."""


@dataclass
class OwnSeeds:
    """What is known of the own seeds of some code.

    ``seen``: whether it makes generators with such seeds. If they ``are_kept``, these draw as always, and
    requests must have seeds of `ASKED`. ``was_tried``: whether it was tried so before.
    """

    seen: bool = False
    are_kept: bool = False
    was_tried: bool = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the seeds of generators while the context is open."""
        token = _watched.set(self)
        try:
            yield
        finally:
            _watched.reset(token)


_watched: Final = ContextVar[OwnSeeds | None]("own seeds of the code that is traced", default=None)


def note_seed(generator: object, seed: object) -> None:
    """Take note of the seed that a generator gets, if a run is in progress in which seeds are watched."""
    run, known = active_run.get(), _watched.get()
    if run is None or known is None:
        return
    run.untouched.pop(_name_of(generator), None)
    if _is_own(seed, run):
        known.seen = True
        if known.are_kept:
            run.untouched[_name_of(generator)] = generator


def is_untouched(generator: object) -> bool:
    """Whether a generator draws as always in the run in progress."""
    run = active_run.get()
    return run is not None and bool(run.untouched) and _name_of(generator) in run.untouched


def _is_own(seed: Any, run: Run) -> bool:
    """Whether a seed is neither that of a request nor a random one."""
    if isinstance(seed, str | bytes):
        return not (isinstance(seed, str) and TEXT in seed)
    numbers = list(seed) if isinstance(seed, list | tuple | np.ndarray) else [seed]
    if not numbers or not all(isinstance(number, int | np.integer) for number in numbers):
        return False
    if any(isinstance(number, Symbol) for number in numbers):
        return False
    random_ones = run.seeds.values()
    return not any(int(number) in ASKED or int(number) in random_ones for number in numbers)


def _name_of(generator: object) -> object:
    """Return what tells one generator from another: torch wraps one in several objects."""
    return getattr(generator, "_cdata", id(generator))
