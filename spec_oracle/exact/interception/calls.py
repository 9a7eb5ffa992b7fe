"""Run foreign code once for every outcome of its random numbers: `enumerate_calls`."""

import dataclasses
import gc
import math
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from spec_oracle.exact.errors import CannotTraceError, Deadline, UnrepeatableError
from spec_oracle.exact.interception.libraries.numpy_arrays import NoiseArray
from spec_oracle.exact.interception.libraries.numpy_buffers import traced_arrays
from spec_oracle.exact.interception.libraries.numpy_random import drawn_by_numpy
from spec_oracle.exact.interception.libraries.python import FloatCalls, drawn_by_python
from spec_oracle.exact.interception.run import Run, along, current_run, walk
from spec_oracle.exact.interception.symbols import TEXT, Symbol
from spec_oracle.exact.representatives import OPEN, Branch, Decision, Indices, Law, normalised
from spec_oracle.threads import one_torch_thread

T = TypeVar("T")
Found = TypeVar("Found")

Context: TypeAlias = Callable[[], AbstractContextManager[None]]

_BETWEEN_LOOKS = 50_000
"""Objects that are made between two looks for garbage."""


def enumerate_calls(
    function: Callable[[], T],
    *,
    max_branches: int = 100_000,
    max_seconds: float = math.inf,
    looked_at: Collection[int] | None = None,
    leave_open: bool = False,
    given: Sequence[Decision] = (),
) -> list[Branch[T]]:
    """Return every outcome of ``function`` with its exact probability (to float64 rounding, below 1e-12).

    ``function`` is called once per branch, with the randomness of torch, ``numpy.random`` and ``random``
    replaced by enumerated decisions, wherever their generators were made. Which seed a generator has does not
    matter; generators of equal seeds, or copies, draw the same numbers (`sources.from_stream`). It must make
    the same steps when it meets the same decisions: no state may survive a call, inputs that it changes must
    be made inside. It returns numbers, strings, arrays, tensors, or containers of them; they hold no symbols
    any more when they come back.

    With ``leave_open``, a token that is returned undecided is not run: `OPEN` is returned in its place, its
    law is among `Branch.stands`. With ``looked_at``, numbers at which the code may look, one run stands for
    many outcomes of the others: see `spec_oracle.exact.representatives`. With ``given``, the first decisions
    of an earlier `Branch.script`, only what begins with them is run, and probabilities are conditional.

    Branches of a weight below 1e-16, as those of a loop that may go on for ever, are cut off: what the
    weights lack to one bounds the error of any probability, and is at most 1e-12.

    Methods of generators that foreign code has kept, as ``draw = generator.random``, are out of reach: what
    moves a global stream is detected, a private one is not.

    Raises `CannotTraceError` where the law would not be exact, `TooManyBranchesError` beyond
    ``max_branches`` or ``max_seconds`` or for a run without end, `UnrepeatableError` for code that is no
    function of its decisions, and whatever ``function`` raises: an error that is no `SpecOracleError` comes
    from the foreign code, which may run well on plain draws.
    """
    limits = max_branches, max_seconds, looked_at
    return _intercepted(function, lambda call: walk(call, *limits, leave_open=leave_open, given=given))


class Leaf(NamedTuple, Generic[T]):
    """What one run with sampled decisions returned, and the log of their probability.

    Where every request's outcome is one decision of known probability, this probability is their product if
    no two requests share a random number, and is another one else: a shared number is decided once.
    """

    log_chance: float
    result: T


_random: Final = np.random.Generator.random
"""As it is when nothing is traced."""


class _SampledRun(Run):
    """A run whose decisions are sampled behind the end of its script."""

    rng: np.random.Generator
    log_chance = 0.0
    taken = 0

    def decide(
        self, weights: Sequence[float] | Law, values: Indices | None = None, *, in_full: bool = False
    ) -> int:
        """Take the next outcome of the script; behind its end, sample one."""
        del in_full
        self.step()
        law = normalised(weights)
        if self.taken < len(self.script):
            decision, self.taken = self.script[self.taken], self.taken + 1
            if law.tobytes() != decision.law.tobytes():
                raise self._failed(UnrepeatableError("it makes other random decisions"))
            self.log_chance += math.log(law[decision.outcome])
            return decision.value
        sums = law.cumsum()  # as `Generator.choice` does, which takes three times as long
        outcome = int((sums / sums[-1]).searchsorted(_random(self.rng), "right"))
        self.log_chance += math.log(law[outcome])
        return outcome if values is None else int(values[outcome])


def sample_call(
    function: Callable[[], T],
    rng: np.random.Generator,
    max_seconds: float,
    given: Sequence[Decision] = (),
) -> Leaf[T]:
    """Return one outcome of ``function``, its decisions sampled, and with which probability they fall so.

    As `enumerate_calls` otherwise, within ``max_seconds`` of processor time; ``function`` may keep state. The
    first decisions are those ``given``; raises `UnrepeatableError` where it makes others.
    """

    def sampled(call: Callable[[], T]) -> Leaf[T]:
        run = _SampledRun(given, Deadline(time.process_time() + max_seconds))
        run.rng = rng
        result = along(call, run)
        return Leaf(run.log_chance, result)  # type: ignore[arg-type]  # None is T's here

    return _intercepted(function, sampled)


def _intercepted(function: Callable[[], T], explored: Callable[[Callable[[], T]], Found]) -> Found:
    """Return the result of ``explored`` on a function whose random numbers are intercepted."""
    torch_run, _ = _torch_contexts()

    def settled_call() -> T:
        with torch_run():
            result = function()
        current_run().has_returned = True
        settled: T = _settled(result)
        return settled

    with _untouched_streams(), interception() as float_calls:
        while True:
            try:
                return explored(settled_call)
            except CannotTraceError as error:
                if not float_calls.learn(error):
                    raise


_open: list[FloatCalls] = []


@contextmanager
def interception() -> Iterator[FloatCalls]:
    """Replace the libraries' functions, for runs; a context around several calls does it once for all.

    Outside of runs the functions do what they always do.
    """
    if _open:
        yield _open[0]
        return
    _, torch_runs = _torch_contexts()  # imported before anything is replaced
    with (
        one_torch_thread(),
        _seldom_collected(),
        drawn_by_numpy(),
        drawn_by_python(),
        traced_arrays(),
        torch_runs(),
        FloatCalls() as float_calls,
    ):
        _open.append(float_calls)
        try:
            yield float_calls
        finally:
            _open.clear()


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collect garbage seldom: a race has two objects a token, and each collection goes through them."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _BETWEEN_LOOKS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def outcomes(branch: Branch[T]) -> Iterator[tuple[float, T, tuple[Decision, ...]]]:
    """Yield what a branch returned for every value of the token that it left open, if any.

    Before it the mass, behind it the decisions that lead there: that token is the last one.
    """
    if not branch.stands:
        yield branch.weight, branch.result, branch.script
    for stand in branch.stands:  # one at most
        tried = stand.chances.nonzero()[0]
        for value in tried.tolist():
            filled = _with_token(branch.result, int(stand.values[value]))
            decision = Decision(stand.chances, tried, (), value, stand.values)
            yield branch.weight * float(stand.chances[value]), filled, (*branch.script, decision)


def _with_token(returned: Any, token: int) -> Any:
    """Return (lists and tuples of) tokens with the open one filled in."""
    if isinstance(returned, list):
        return [_with_token(part, token) for part in returned]
    if type(returned) is tuple:
        return tuple(_with_token(part, token) for part in returned)
    return token if type(returned) is int and returned == OPEN else returned


def _torch_contexts() -> tuple[Context, Context]:
    """Return the contexts for one run and for all; torch is left alone where nobody has imported it."""
    if "torch" not in sys.modules:
        return nullcontext, nullcontext
    from spec_oracle.exact.interception.libraries.torch_mode import enumerated_torch
    from spec_oracle.exact.interception.libraries.torch_modules import untraced_modules

    return enumerated_torch, untraced_modules


_state_of_numpy: Final = np.random.get_state
_state_of_python: Final = random.getstate
"""Of the global streams, whatever stands in for these functions."""


@contextmanager
def _untouched_streams() -> Iterator[None]:
    """Raise `UnrepeatableError` when a global random stream moved: real randomness entered the result."""
    before = _streams()
    yield
    if before != _streams():
        raise UnrepeatableError("the code drew from a global random stream that was not intercepted")


def _streams() -> list[object]:
    numpy_state = _state_of_numpy(legacy=False)
    assert isinstance(numpy_state, dict)
    states: list[object] = [
        _state_of_python(),
        numpy_state["state"]["key"].tobytes(),
        numpy_state["state"]["pos"],
    ]
    if "torch" in sys.modules:
        from spec_oracle.exact.interception.libraries.torch_random import default_generator

        states.append(default_generator.get_state().numpy().tobytes())
    return states


_NUMBERS: Final = frozenset({int, float, bool})


def _settled(result: Any) -> Any:  # noqa: PLR0911  (one line per kind of result)
    """Return ``result`` with pending integers decided; raises `CannotTraceError` for noise in it."""
    if type(result) in _NUMBERS:  # most of what is returned
        return result
    if type(result) is list and _NUMBERS.issuperset(map(type, result)):
        return result[:]
    if isinstance(result, Symbol):
        return result.settled("return value")
    if isinstance(result, str) and TEXT in result:
        current_run().cannot_trace("return value", "a text with a random number in it")
    if result is None or isinstance(result, str | bytes | bool | int | float | np.generic):
        return result
    if isinstance(result, np.ndarray):
        traced = isinstance(result, NoiseArray)
        if result.dtype != object and not traced:
            return result
        settled = [_settled(element) for element in result.flat]
        return np.array(settled, dtype=result.dtype if traced else None).reshape(result.shape)
    if isinstance(result, Mapping):
        return {key: _settled(value) for key, value in result.items()}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(_settled, result))
    if isinstance(result, tuple | list):
        return type(result)(map(_settled, result))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        fields = [field.name for field in dataclasses.fields(result) if field.init]
        return dataclasses.replace(result, **{name: _settled(getattr(result, name)) for name in fields})
    if "torch" in sys.modules and isinstance(result, sys.modules["torch"].Tensor):
        from spec_oracle.exact.interception.libraries.torch_boxes import settle

        settle(result, "return value")
        return result
    return current_run().cannot_trace("return value", f"cannot look for random numbers in a {type(result)}")
