"""Whether code under test takes the same branches when its random numbers are traced, and when not.

Code may see that it is traced: the random numbers are symbols, no floats, in arrays of another class.
``try: fast(u) except TypeError: slow(u)`` runs ``slow`` then, and what is found says nothing of ``fast``. So
it is recorded which line of the user's code ran right after which. An ordinary call must not take a branch
that no traced call with equal arguments took.

A branch within one line is not seen, nor what compiled code and other threads do.
"""

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.shapes.covered import UnlikeError
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import SamplerFunction
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.places import is_users, short_path
from spec_oracle.toy import Instance
from verifiers import Paths

LawAfter: TypeAlias = Callable[..., ConditionalLaw]
"""Traces code after drafts: `spec_oracle.audit.sampler.tracer.law_after`."""

Step: TypeAlias = tuple[str, int, int]
"""A file, a line, 0 where a function is entered, and the line that ran after it."""

_ABOUT_TYPES: Final = TypeError, AttributeError, BufferError
"""What code raises that is handed another kind of array than it takes."""


@dataclass
class Watched:
    """A sampler's ordinary calls beside traced ones: the steps that traced ones are ``known`` to take.

    ``steps`` are those of both.
    """

    law_after: LawAfter
    rng: np.random.Generator
    steps: set[Step] = field(default_factory=set)
    known: set[Step] = field(default_factory=set)

    def laws_after(
        self,
        code: SamplerCode,
        several: Iterable[Paths],
        request: int = 0,
        looked_at: Collection[int] = (),
        end: float = math.inf,
        *,
        in_full: bool | None = None,
    ) -> list[ConditionalLaw]:
        """Return the exact law of a request's emission after each of several drafts, up to a processor time.

        Of sampled ids those ``looked_at`` are run, all ``in_full`` (None: at small sizes); where an ordinary
        call branches by one of which few were run, also those that it emitted.
        Raises `UnlikeError` where ordinary calls take a step that no traced call took, here or at another
        shape, and where traced calls alone raise an error about types, besides what ``law_after`` raises.
        """
        missing, laws = set[Step](), list[ConditionalLaw]()

        def traced(*arguments: object) -> Any:
            function = recording(code.function, self.known) if missing else code.function
            returned = function(*arguments)
            missing.difference_update(self.known)
            return returned

        def law_of(drafts: Paths, ids: Collection[int]) -> ConditionalLaw:
            watched, seconds = replace(code, function=traced), max(end - time.process_time(), 0.0)
            return self.law_after(
                watched, drafts, request, max_seconds=seconds, looked_at=ids, in_full=in_full
            )

        for drafts in several:
            if not laws:
                self._ordinary(code, drafts)  # What is done once, and kept, is done.
            emitted = self._ordinary(replace(code, function=recording(code.function, missing)), drafts)
            self.steps |= missing
            missing -= self.known
            try:
                laws.append(law_of(drafts, looked_at))
                if missing and laws[-1].assumed:
                    laws[-1] = law_of(drafts, [*looked_at, *emitted[request].tolist()])
            except SubjectRaisedError as error:
                if isinstance(error.__cause__, _ABOUT_TYPES):
                    raise UnlikeError(f"only while its random numbers were traced, it {error}") from error
                raise
            self.steps |= self.known
        if missing:
            places = _places(missing)
            raise UnlikeError(f"ordinary calls take another branch than traced ones: {places}")
        return laws

    def _ordinary(self, code: SamplerCode, drafts: Paths) -> Any:
        """Return the tokens that an ordinary call emits."""
        return code(drafts, code.generator(int(self.rng.integers(2**31)))).tokens


def require_alike(
    code: SamplerCode, instance: Instance, rng: np.random.Generator, law_after: LawAfter
) -> None:
    """Raise `NoEvidenceError` where ordinary calls on a toy instance branch otherwise than traced ones.

    What else is found is not said again: code may keep numbers from call to call.
    """
    table = draft_table(instance)
    rows = np.flatnonzero(table.law.probability)[:, None]
    try:
        Watched(law_after, rng).laws_after(code, map(table.paths, rows))
    except UnlikeError as error:
        raise NoEvidenceError(f"could not trace what ordinary calls do, sampled instead: {error}") from None
    except (NotTracedError, ContractError, SubjectRaisedError):
        return


def recording(function: SamplerFunction, steps: set[Step]) -> SamplerFunction:
    """Return a function that adds to ``steps`` what users' code does in each call of it, in this thread.

    Hides the trace function from code that calls `sys.gettrace`.
    """

    def call(*arguments: object) -> Any:
        before, gettrace = sys.gettrace(), sys.gettrace
        sys.gettrace = lambda: before
        sys.settrace(partial(_entered, steps))
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)
            sys.gettrace = gettrace

    return call


def _entered(steps: set[Step], frame: FrameType, _: str, __: object) -> Any:
    """Record the lines of a function of a user that is entered: what `sys.settrace` calls."""
    name, line = frame.f_code.co_filename, 0
    if not is_users(name):
        return None

    def went(frame: FrameType, event: str, _: object) -> object:
        nonlocal line
        if event == "line":
            steps.add((name, line, frame.f_lineno))
            line = frame.f_lineno
        return went

    return went


def _places(steps: set[Step]) -> str:
    """Return the lines at which steps begin, as "file:line"; those that begin a call have none."""
    places = sorted({(name, line or following) for name, line, following in steps})
    listed = [f"{short_path(Path(name))}:{line}" for name, line in places[:3]]
    return ", ".join([*listed, *["..."] * (len(places) > 3)])
