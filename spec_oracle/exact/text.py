"""The exact law of the text that several calls of a verifier decode, carried state included."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Integers, Number, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import (
    DraftTable,
    call_verifier,
    checked_emissions,
    drafting_on,
    enumerated_instance,
    fresh_state,
    prepared_call,
)
from spec_oracle.exact.completions import Gap, largest_gap
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.enumeration import ScriptedDecisions, enumerate_branches
from spec_oracle.toy import Context, Instance
from spec_oracle.toy.model import require_memory
from spec_oracle.validation import is_whole, require_whole
from verifiers import AnyVerifier, State, drafting_of

_Key: TypeAlias = tuple[Any, ...]

_DIGITS: Final = 12
"""Digits behind the point in which the floats of equal states agree."""


@dataclass(frozen=True)
class DecodedLaw:
    """The law of the first ``num_tokens`` tokens of the text.

    ``law`` and ``expected``, both flat [V^num_tokens] in lexicographic order: as decoded, and the target's.
    With a stop token, text ends there; what would follow is written as more stop tokens in both.
    """

    vocab_size: int
    num_tokens: int
    law: Numbers
    expected: Numbers

    @cached_property
    def total_variation(self) -> Number:
        """Half the summed gaps; 0 means that the text is the target's."""
        return abs(self.law - self.expected).sum() / 2

    @property
    def largest_gap(self) -> Gap:
        """The text with the largest gap, its probability under the target and as decoded."""
        return largest_gap(self.expected, self.law, (self.vocab_size,) * self.num_tokens)


@dataclass(frozen=True)
class _OpenText:
    """A text that is not long enough yet: its mass and the state in which the next call finds it."""

    text: Context
    state: State
    mass: Number


def decoded_law(
    verifier: AnyVerifier,
    instance: Instance,
    num_tokens: int,
    *,
    exact: bool = False,
    array: str = "numpy",
    dtype: str = "float64",
    stop_token: int | None = None,
    drafting: Drafting | None = None,
    end: float = math.inf,
) -> DecodedLaw:
    """Enumerate the text of as many calls as it takes to decode ``num_tokens`` tokens.

    Every call drafts afresh from the context reached so far and gets the state of the call before. A
    ``stop_token`` ends the text wherever it stands in an emission. ``drafting`` None: the K paths of the
    instance, by the law that the verifier declares. Arithmetic, ``end`` and errors as for `emission_law`.

    >>> import verifiers
    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> text = decoded_law(verifiers.get("greedy_block"), toy, 4, exact=True)
    >>> text.total_variation, len(text.law)
    (Fraction(0, 1), 16)
    """
    require_whole(num_tokens, "num_tokens")
    bound, numbers, chosen = prepared_call(verifier, instance, exact=exact, array=array, dtype=dtype)
    numbers = enumerated_instance(verifier, numbers)
    vocab = instance.vocab_size
    if stop_token is not None and not (is_whole(stop_token) and 0 <= stop_token < vocab):
        raise InvalidInputError(f"stop_token: {stop_token!r} outside 0..{vocab - 1}")
    require_memory(vocab, num_tokens, exact=exact)
    calls = _FurtherCalls(bound, numbers, chosen, drafting, end)
    law = np.full(vocab**num_tokens, calls.zero)
    pending = [_OpenText((), fresh_state(verifier, 1), calls.zero + 1)]
    while pending:
        shortest = min(len(item.text) for item in pending)
        now = [item for item in pending if len(item.text) == shortest]
        pending = [item for item in pending if len(item.text) > shortest]
        for _, item in calls.continued(now):
            whole = _cut(item.text, num_tokens, stop_token)
            if whole is None:
                pending.append(item)
            else:
                law[np.ravel_multi_index(whole, (vocab,) * num_tokens)] += item.mass
        pending = _merged(pending)
    expected = _expected(numbers, num_tokens, stop_token)
    return DecodedLaw(vocab, num_tokens, chosen.finish(law), expected)


def tokens_per_call(verifier: AnyVerifier, instance: Instance, num_calls: int) -> tuple[float, ...]:
    """Return the mean number of tokens that the first, second, ... call emits; the text goes on between.

    Exact, in float64. A verifier with state gets the state of the call before: what it gains in one
    call by a modified target may cost it in the next.
    """
    require_whole(num_calls, "num_calls")
    bound, numbers, chosen = prepared_call(verifier, instance, exact=False, array="numpy", dtype="float64")
    calls = _FurtherCalls(bound, enumerated_instance(verifier, numbers), chosen)
    pending = [_OpenText((), fresh_state(verifier, 1), 1.0)]
    means = []
    for _ in range(num_calls):
        emitted = [(after, len(after.text) - len(item.text)) for item, after in calls.continued(pending)]
        means.append(float(sum(item.mass * length for item, length in emitted)))
        order = instance.target.order  # nothing before the last tokens matters to what follows
        pending = _merged([_OpenText(item.text[-order:], item.state, item.mass) for item, _ in emitted])
    return tuple(means)


def _cut(text: Context, num_tokens: int, stop_token: int | None) -> Context | None:
    """Return the first ``num_tokens`` tokens, padded after a stop token; None while the text goes on."""
    if stop_token is not None and stop_token in text[:num_tokens]:
        return (*text[: text.index(stop_token)], *[stop_token] * num_tokens)[:num_tokens]
    return text[:num_tokens] if len(text) >= num_tokens else None


def _expected(instance: Instance, num_tokens: int, stop_token: int | None) -> Numbers:
    """Return the target's law of the text, in which a stop token is followed by stop tokens only."""
    law = instance.target.levels[0][:1, 0] * 0 + 1
    stopped = np.zeros(1, dtype=bool)
    for length in range(num_tokens):
        rows = instance.target.rows(length)
        if stop_token is not None:
            rows = rows.copy()
            rows[stopped] = np.arange(instance.vocab_size) == stop_token
            stopped = np.repeat(stopped, instance.vocab_size)
            stopped[stop_token :: instance.vocab_size] = True
        law = (law[:, None] * rows).reshape(-1)
    return law


def _grouped(items: Sequence[_OpenText], key: Callable[[_OpenText], _Key]) -> list[list[_OpenText]]:
    """Return the items of each key, in the order in which the keys come first."""
    groups: dict[_Key, list[_OpenText]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())


def _merged(items: Sequence[_OpenText]) -> list[_OpenText]:
    """Add up the masses of equal texts in equal states; floats that differ by rounding only are one."""

    def key(item: _OpenText) -> _Key:
        return item.text, _rounded(item.state)

    return [replace(same[0], mass=sum(item.mass for item in same)) for same in _grouped(items, key)]


def _rounded(state: State) -> _Key:
    """Return the numbers of one request's state: floats that differ by rounding only are equal."""
    numbers = (x for array in state for x in array.reshape(-1).tolist())
    return tuple(round(x, _DIGITS) if isinstance(x, float) else x for x in numbers)


class _FurtherCalls:
    """Runs one more call for all texts that share their last tokens; those in equal states share it."""

    def __init__(
        self,
        verifier: AnyVerifier,
        instance: Instance,
        chosen: Arithmetic,
        drafting: Drafting | None = None,
        end: float = math.inf,
    ) -> None:
        self._verifier, self._instance, self._chosen = verifier, instance, chosen
        self._drafting = drafting or drafting_on(instance, drafting_of(verifier))
        self._end = end
        self._tables: dict[tuple[int, int], DraftTable] = {}
        self._found: dict[_Key, list[_OpenText]] = {}
        """What one call adds to a text, by its last tokens and its state."""
        self.zero = chosen.prepare(instance.target.levels[0][:1, 0])[0] * 0

    def continued(self, items: Sequence[_OpenText]) -> Iterator[tuple[_OpenText, _OpenText]]:
        """Yield each of ``items`` with every continuation by one call."""
        for alike in _grouped(items, lambda item: self._instance.target.index(item.text)):
            last = self._instance.target.index(alike[0].text)
            keys = [(last, _rounded(item.state)) for item in alike]
            new = {key: item.state for key, item in zip(keys, alike, strict=True) if key not in self._found}
            if new:
                self._found |= zip(new, self._run(alike[0].text, [*new.values()]), strict=True)
            for item, key in zip(alike, keys, strict=True):
                for added in self._found[key]:
                    yield item, _OpenText(item.text + added.text, added.state, item.mass * added.mass)

    def _run(self, text: Context, states: Sequence[State]) -> list[list[_OpenText]]:
        """Run one call after ``text`` in each of the states; return what it adds, with its probability."""
        table = self._table(text)
        tuples = len(table.law.probability)
        # One-request states make one batch; all are fresh, or none is.
        stacked = [np.concatenate(arrays) for arrays in zip(*states, strict=True)]

        def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Integers, Integers, State]:
            drafts = table.drafts(rows % tuples)
            state = tuple(self._chosen.from_numpy(array[rows // tuples]) for array in stacked)
            verdict, state = call_verifier(self._verifier, drafts, decisions, state)
            return *checked_emissions(verdict, drafts, self._chosen), state

        found: list[list[_OpenText]] = [[] for _ in states]
        for branches in enumerate_branches(
            run,
            np.tile(table.law.probability, len(states)),
            max_rows=table.batch_rows,
            arithmetic=self._chosen,
            end=self._end,
        ):
            tau, emitted, state = branches.result
            after, number = [self._chosen.to_numpy(array) for array in state], branches.rows // tuples
            first, alike = _distinct_rows([number, emitted, *after])
            masses = np.full(len(first), self.zero)
            np.add.at(masses, alike, branches.weight)
            for row, mass in zip(first.tolist(), masses, strict=True):
                tokens = tuple(emitted[row, : tau[row] + 1].tolist())
                one = tuple(array[row : row + 1] for array in after)
                found[number[row]].append(_OpenText(tokens, one, mass))
        return found

    def _table(self, text: Context) -> DraftTable:
        key = self._instance.target.index(text)
        if key not in self._tables:
            after = self._instance.after(text)
            self._tables[key] = DraftTable(after, self._drafting, self._chosen)
        return self._tables[key]


def _distinct_rows(arrays: Sequence[Numbers]) -> tuple[Integers, Integers]:
    """Return the first row of each kind, int [D], and the kind of every row, int [R], of arrays [R, ...].

    Rows of one kind are equal in all arrays; floats that differ by rounding only are equal.
    """
    rows = len(arrays[0])
    kind = np.zeros(rows, dtype=np.int64)
    for column in (column for array in arrays for column in array.reshape(rows, -1).T):
        if column.dtype == object:  # of any type: they have no order
            numbers: dict[Any, int] = {}
            codes = np.array([numbers.setdefault(value, len(numbers)) for value in column])
        else:
            codes = np.unique(np.round(column, _DIGITS), return_inverse=True)[1]
        kind = np.unique(kind * rows + codes, return_inverse=True)[1]
    _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[kind]
