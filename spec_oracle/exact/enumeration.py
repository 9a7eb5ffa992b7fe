"""The enumerating decision source: run code under test on every outcome of its random decisions.

It follows scripts, for whole batches of branches (docs/theory.md, "Enumeration"): no second implementation
of the code is involved.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Rational
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers, Numbers
from spec_oracle.errors import ContractError, SpecOracleError, decided_for
from spec_oracle.exact.arithmetic import NUMPY, Arithmetic
from spec_oracle.exact.errors import NotInTimeError, TooManyBranchesError, require_time
from spec_oracle.exact.representatives import FEW_OF_A_BATCH, Alike, Stand, chosen, represented
from spec_oracle.places import running_at
from verifiers.arrays import Array, is_nan, minimum_one, positive_part

T = TypeVar("T")

MASS_TOLERANCE = 1e-9

_FIRST_PART, _LEAST_ROWS, _WAYS, _FAR = 1 / 16, 100, 5, 8
"""After this part of the time, and so many rows, outcomes are counted on so many ways. It ends there if they
would take so many times the time."""

_MOST_NUMBERS = 1 << 27
"""Probabilities that are held at once for the outcomes of one request: 1 GiB of them."""


class DecisionError(SpecOracleError):
    """The code under test asked for an impossible decision, or decides otherwise when it is run again."""


class _Undecided(Exception):  # noqa: N818  # a signal, not an error
    """Raised inside the code under test at the first decision that the script does not cover."""

    def __init__(self, chances: Numbers) -> None:
        """``chances`` [rows, decisions, outcomes] of the decisions that were asked for in one call."""
        self.chances = chances


class OpenToken:
    """The answer to a categorical decision, one for every row, that is not taken yet.

    The code under test may return it as it is; any other use takes the decision first.
    ``chances`` [rows, outcomes] is its law.
    """

    def __init__(self, chances: Numbers) -> None:
        self.chances = chances

    def _take(self, *_: Any, **__: Any) -> NoReturn:
        raise _Undecided(self.chances[:, None])

    __array__ = __array_ufunc__ = __array_function__ = __index__ = __int__ = __float__ = __bool__ = _take
    __getitem__ = __iter__ = __len__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _take
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = _take
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        self._take()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Take the decision before torch computes with it."""
        tokens = (value for value in (*args, *(kwargs or {}).values()) if isinstance(value, cls))
        raise _Undecided(next(tokens).chances[:, None])


class ScriptedDecisions:
    """A `verifiers.DecisionSource` that answers from a script, in order, for a batch of rows.

    ``script`` holds what was asked and answered, one `_Decided` per call, and what finished steps of the code
    returned; certain answers and steps are added to it.
    ``chosen`` translates between the arrays of the code under test and numpy. A call that does not decide for
    all ``batch`` rows raises `ContractError`. With ``leave_open``, the first categorical decision of one
    answer a row beyond the script is answered with an `OpenToken`, which is then ``open``.
    """

    def __init__(
        self, script: "_Script", batch: int, chosen: Arithmetic, *, leave_open: bool = False
    ) -> None:
        self._script = script
        self._batch = batch
        self._position = 0
        self._steps = 0
        self._chosen = chosen
        self._leave_open = leave_open
        self.open: OpenToken | None = None

    def step_once(self, run: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Return the arrays [rows] that a step of the code returns, which an earlier run may have finished.

        For code that goes step by step: each outcome begins anew, and would take all earlier steps again.
        """
        if self._steps == len(self._script.steps):
            found = run()
            if self.open is not None:  # what it returned is not known yet
                return found
            self._script.steps.append(_Finished(self._position, found))
        finished = self._script.steps[self._steps]
        self._steps, self._position = self._steps + 1, finished.position
        return finished.returned

    def bernoulli(self, probability: Array) -> Array:
        """Answer with True or False from the script; chances outside [0, 1] are clipped."""
        chance = self._of_all(probability)
        _refuse(is_nan(chance), self._position, "a probability is NaN")
        chance = minimum_one(positive_part(self._chosen.chances(chance)))
        answer = self._next(np.stack([1 - chance, chance], axis=-1), chance.shape)
        return self._chosen.from_numpy(answer.astype(bool))

    def categorical(self, weights: Array) -> Array:
        """Answer with an index from the script; refuses negative, NaN and all-zero weights."""
        weight = self._of_all(weights)
        if not (weight >= 0).all():
            _refuse(is_nan(weight), self._position, "a weight is NaN")
            _refuse(weight < 0, self._position, "a weight is negative")
        weight = self._chosen.chances(weight)
        total = weight.sum(axis=-1, keepdims=True)
        _refuse(total <= 0, self._position, "all weights are zero")
        chances, is_new = weight / total, self._position == len(self._script.answers)
        is_first = is_new and self._leave_open and self.open is None
        if is_first and weight.ndim == 2 and self._is_open(chances):
            self.open = OpenToken(chances)
            return self.open
        return self._chosen.from_numpy(self._next(chances, weight.shape[:-1]))

    def _of_all(self, asked: Array) -> Numbers:
        """Return what the code asks as numpy's; raises `ContractError` unless it asks for all rows."""
        numbers = self._chosen.to_numpy(asked)
        if numbers.shape[:1] != (self._batch,):
            requests = len(numbers) if numbers.ndim else 1
            raise ContractError(f"{decided_for(requests, self._batch)}{_place()}")
        return numbers

    def _is_open(self, chances: Numbers) -> bool:
        """Whether a decision may be left open; not a certain one of rationals, which may be of floats."""
        if not self._chosen.is_exact:
            return True
        if not ((chances > 0).sum(axis=-1) > 1).any():
            return False
        _require_rationals(chances[:, None], self._position)
        return True

    def _next(self, chances: Numbers, shape: tuple[int, ...]) -> Integers:
        if self.open is not None:  # what is asked later may depend on it
            raise _Undecided(self.open.chances[:, None])
        asked = chances.reshape(shape[0], -1, chances.shape[-1])
        answers = self._script.answers
        if self._position == len(answers):
            if ((asked > 0).sum(axis=-1) > 1).any():
                if self._chosen.is_exact:
                    _require_rationals(asked, self._position)
                raise _Undecided(asked)
            # Nothing branches here: the run may go on.
            outcomes = asked.argmax(axis=-1)
            answers.append(_Decided(outcomes, np.ones(outcomes.shape)))
        answer = answers[self._position]
        answer.require_same(asked, self._position)
        self._position += 1
        return answer.outcomes.reshape(shape)


@dataclass(frozen=True)
class _Decided:
    """The ``outcomes`` int [rows, decisions] of one call, and the chances [rows, decisions] they had."""

    outcomes: Integers
    chances: Floats

    def of_rows(self, rows: Any) -> "_Decided":
        return _Decided(self.outcomes[rows], self.chances[rows])

    def require_same(self, asked: Numbers, position: int) -> None:
        """Raise `DecisionError` unless the code asks what it asked before, in the same place."""
        same = asked.shape[:2] == self.outcomes.shape
        if same:
            now = asked.reshape(-1, asked.shape[2])[np.arange(self.outcomes.size), self.outcomes.ravel()]
            off = now.astype(np.float64, copy=False) - self.chances.ravel()
            same = bool((abs(off) <= MASS_TOLERANCE).all())
        if not same:
            raise DecisionError(
                f"decision {position}: its probabilities changed between two runs with the same inputs and "
                "earlier decisions; verify must take all randomness from its DecisionSource"
            )


@dataclass(frozen=True)
class _Finished:
    """What a finished step ``returned``, [rows] each, and the ``position`` of the decision after it."""

    position: int
    returned: tuple[Array, ...]

    def of_rows(self, rows: Any) -> "_Finished":
        return _Finished(self.position, tuple(values[rows] for values in self.returned))


@dataclass(frozen=True)
class _Script:
    """The answers to decisions, in order, and the finished steps of the code that asks for them."""

    answers: list[_Decided] = field(default_factory=list)
    steps: list[_Finished] = field(default_factory=list)

    def of_rows(self, rows: Any) -> "_Script":
        return _Script([one.of_rows(rows) for one in self.answers], [one.of_rows(rows) for one in self.steps])


def _require_rationals(asked: Numbers, decision: int) -> None:
    """Raise `ContractError` for a float: what it is added to, or multiplied with, is none of the law's."""
    kinds = {kind for kind in set(map(type, asked.flat)) if not issubclass(kind, Rational)}
    for index, chance in np.ndenumerate(asked) if kinds else ():
        if type(chance) in kinds:
            raise ContractError(
                f"decision {decision}: the probability {float(chance):.6g} of outcome {index[-1]} for "
                f"request {index[0]} is a float{_place()}: with --exact compute with "
                "the numbers of the arrays, or make constants by `filled(x, 0.5)` of verifiers.arrays"
            )


def _place() -> str:
    """Return " (at file:line)" of the user's line that asks for a decision, "" where there is none."""
    place = running_at(sys._getframe())  # noqa: SLF001  (the documented way to one's own stack)
    return f" (at {place})" * bool(place)


def _refuse(bad: Booleans, decision: int, what: str) -> None:
    bad = np.asarray(bad, dtype=bool)
    if bad.any():
        raise DecisionError(f"decision {decision}: {what} at index {tuple(np.argwhere(bad)[0].tolist())}")


class Represented(NamedTuple):
    """The outcomes that a branch represents, and its values that should lead to the same as others."""

    stand: Stand | None = None
    alike: tuple[Alike, ...] = ()


@dataclass(frozen=True)
class Branches(Generic[T]):
    """A batch of finished branches: their input ``rows``, int [R], ``weight`` [R] and joint ``result``.

    ``represented`` [R], None where all outcomes are run; a weight is that of all outcomes represented.
    """

    rows: Integers
    weight: Numbers
    result: T
    represented: tuple[Represented | None, ...]


@dataclass(frozen=True)
class _Unfinished:
    """Branches that end with a decision, each after that of number ``source`` int [R] of the run before."""

    rows: Integers
    weight: Numbers
    script: _Script
    represented: tuple[Represented | None, ...]
    source: Integers

    def pieces(self, size: int) -> Iterator["_Unfinished"]:
        for start in range(0, len(self.rows), size):
            rows = slice(start, start + size)
            yield self._of(rows, self.represented[rows])

    def of_rows(self, rows: Integers) -> "_Unfinished":
        return self._of(rows, tuple(self.represented[row] for row in rows))

    def _of(self, rows: Any, known: tuple[Represented | None, ...]) -> "_Unfinished":
        script = self.script.of_rows(rows)
        return _Unfinished(self.rows[rows], self.weight[rows], script, known, self.source[rows])


def enumerate_branches(
    run: Callable[[Integers, ScriptedDecisions], T],
    probability: Numbers,
    *,
    max_rows: int,
    arithmetic: Arithmetic = NUMPY,
    leave_open: bool = False,
    looked_at: Integers | None = None,
    few: int = FEW_OF_A_BATCH,
    end: float = math.inf,
) -> Iterator[Branches[T]]:
    """Run ``run(rows, decisions)`` on every outcome of its decisions.

    ``probability`` [N] is the mass of each input row; ``rows`` selects input rows, with repetition, at most
    ``max_rows`` at a time. Yields finished branches whose weights sum to ``probability`` row by row; with
    ``leave_open`` their results may hold an `OpenToken`. With ``looked_at`` [N, n], ids at which the code may
    look, some of more than ``few`` outcomes are run: see `representatives`. ``end`` is the processor time up
    to which they are run.

    Raises `DecisionError` for impossible decisions and when mass is lost, the mark of code that takes
    randomness from elsewhere, `ContractError` for floats among rationals and for decisions that are not those
    of all rows, `TooManyBranchesError` where a decision follows one of which few outcomes are run, or where
    the decisions of one call have too many; `NotInTimeError` at the ``end``, and as soon as it is far away.
    """
    mass_in = probability.astype(np.float64)
    mass_out = np.zeros(len(probability))
    every = np.arange(len(probability))
    start = _Unfinished(every, probability, _Script(), (None,) * len(probability), every)
    unfinished, pace = list(start.pieces(max_rows)), _Pace(end)

    def step(branch: _Unfinished) -> T | _Unfinished:
        decisions = ScriptedDecisions(branch.script, len(branch.rows), arithmetic, leave_open=leave_open)
        try:
            return run(branch.rows, decisions)
        except Exception as error:
            if isinstance(error, _Undecided):
                chances = error.chances
            elif decisions.open is not None:  # libraries may refuse to compute with it in words of their own
                chances = decisions.open.chances[:, None]
            else:
                raise
            return _expand(branch, chances, looked_at, few)

    while unfinished:
        branch = unfinished.pop()
        pace.require_time(len(branch.rows), partial(_has_more_outcomes_than, step=step, start=start))
        result = step(branch)
        if isinstance(result, _Unfinished):
            unfinished.extend(result.pieces(max_rows))
            continue
        np.add.at(mass_out, branch.rows, branch.weight.astype(np.float64))
        yield Branches(branch.rows, branch.weight, result, branch.represented)
    if not np.allclose(mass_in, mass_out, rtol=MASS_TOLERANCE, atol=MASS_TOLERANCE * mass_in.max()):
        worst = int(np.argmax(np.abs(mass_in - mass_out)))
        raise DecisionError(
            f"draft tuple {worst}: the outcomes sum to probability {mass_out[worst]:.12g}, expected "
            f"{mass_in[worst]:.12g}; verify takes randomness from elsewhere, or mixes up requests"
        )


@dataclass
class _Pace:
    """How fast outcomes are run, up to the processor time ``end``: ``rows`` of batches so far."""

    end: float
    rows: int = 0
    is_estimated: bool = False
    started: float = field(default_factory=lambda: time.process_time())  # noqa: PLW0108  (tests replace it)

    def require_time(self, more: int, has_more_than: Callable[[float], bool]) -> None:
        """Raise `NotInTimeError` at the end, or where there are outcomes that would take far longer.

        That is asked once, when it is known what a row takes; ``more`` rows come next.
        """
        require_time(self.end)
        if self.end < math.inf and self.rows >= _LEAST_ROWS and not self.is_estimated:
            took, allowed = time.process_time() - self.started, self.end - self.started
            if took > _FIRST_PART * allowed:
                self.is_estimated = True
                if has_more_than(_FAR * allowed * self.rows / took):
                    raise NotInTimeError("far more outcomes than can be run in this time")
        self.rows += more


def _has_more_outcomes_than(
    limit: float, *, step: Callable[[_Unfinished], object], start: _Unfinished
) -> bool:
    """Whether all rows have more outcomes than ``limit``, by most of some random ways: Knuth, 1975.

    The product of the numbers of outcomes on one way has as its mean how many there are. The median of some
    ways is less where few ways are long: then too few are counted. The ways are gone together, as one batch.
    """
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(start.weight > 0)
    after, products = step(start.of_rows(rng.choice(rows, _WAYS))), np.full(_WAYS, float(len(rows)))
    while isinstance(after, _Unfinished) and (products > limit).sum() <= _WAYS // 2:
        counts = np.bincount(after.source)
        products *= counts
        after = step(after.of_rows(np.cumsum(counts) - counts + rng.integers(counts)))
    return bool((products > limit).sum() > _WAYS // 2)


def _expand(branch: _Unfinished, chances: Numbers, looked_at: Integers | None, few: int) -> _Unfinished:
    """Replicate each row once per joint outcome of positive probability of the decisions asked for."""
    if looked_at is not None and chances.shape[1] == 1:
        return _expand_few(branch, chances[:, 0], looked_at, few)
    outcomes_of_a_row = (chances > 0).sum(axis=-1).prod(axis=1, dtype=np.float64)
    if outcomes_of_a_row.max() * chances.shape[-1] > _MOST_NUMBERS:
        raise TooManyBranchesError(
            f"{chances.shape[1]} decisions of one call have {outcomes_of_a_row.max():.3g} outcomes together, "
            "more than can be run; ask for fewer at once"
        )
    source = np.arange(len(branch.rows))
    weight = branch.weight
    outcomes = np.zeros((len(source), 0), dtype=np.int64)
    taken = np.zeros((len(source), 0))
    for decision in range(chances.shape[1]):
        chance = chances[source, decision]
        kept, outcome = np.nonzero(chance > 0)
        factor = chance[kept, outcome]
        weight = weight[kept] * factor
        outcomes = np.concatenate([outcomes[kept], outcome[:, None]], axis=1)
        taken = np.concatenate([taken[kept], factor[:, None].astype(np.float64)], axis=1)
        source = source[kept]
    return _continued(branch, source, weight, _Decided(outcomes, taken))


def _continued(branch: _Unfinished, source: Integers, weight: Numbers, answer: _Decided) -> _Unfinished:
    """Return the rows ``source`` of a branch after one more answer, each with its ``weight``."""
    script = branch.script.of_rows(source)
    script.answers.append(answer)
    known: tuple[Represented | None, ...] = (None,) * len(source)
    if any(branch.represented):
        counts = np.bincount(source, minlength=len(branch.rows))
        if any(one and one.stand and n > 1 for one, n in zip(branch.represented, counts, strict=True)):
            raise TooManyBranchesError(
                "a sampled token id that represents others decides what is sampled next"
            )
        known = tuple(branch.represented[row] for row in source)
    return _Unfinished(branch.rows[source], weight, script, known, source)


def _expand_few(branch: _Unfinished, chances: Numbers, looked_at: Integers, few: int) -> _Unfinished:
    """Replicate each row once per outcome that is to be run; chances [R, outcomes] of one decision."""
    run, weights = chances > 0, chances.copy()
    known: dict[tuple[int, int], Represented] = {}
    for row in np.flatnonzero(run.sum(axis=1) > few).tolist():
        tried, alike = chosen(chances[row], looked_at[branch.rows[row]], few=few)
        if not alike:
            continue
        run[row] = False
        run[row, tried] = True
        masses = represented(chances[row], tried, alike[-1])
        weights[row, alike[-1]] = masses.sum()
        stand = Stand(alike[-1], np.arange(len(masses)), masses / masses.sum())
        answers = (answer.outcomes[row].tobytes() for answer in branch.script.answers)
        decision = (int(branch.rows[row]), *answers)
        before = (branch.represented[row] or Represented()).alike
        for one in alike:
            known[row, one] = Represented(stand if one == alike[-1] else None, (*before, (decision, one)))
    source, outcome = np.nonzero(run)
    answer = _Decided(outcome[:, None], chances[source, outcome][:, None].astype(np.float64))
    after = _continued(branch, source, branch.weight[source] * weights[source, outcome], answer)
    places = zip(source.tolist(), outcome.tolist(), after.represented, strict=True)
    return replace(after, represented=tuple(known.get((row, one), usual) for row, one, usual in places))
