"""Whether equal requests share randomness: with others of their call, of any distance, or of other calls.

All requests are alike, so that their emissions are independent draws of one law whatever the rule, and what
two of them share shows most: a uniform that is shared by requests with other thresholds is shared by equal
ones. The tests are exact, see `spec_oracle.statistics.independence`, and share their rate evenly.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.contracts.sampler import parameters_of
from spec_oracle.statistics import independence, split
from verifiers import Paths

CALLS_TURNS: Final = 151  # Half the calls of each size in one chain of calls.

Ints: TypeAlias = NDArray[np.int64]
Finding: TypeAlias = tuple[float, str]
"""A p-value, and what it belongs to."""

_DRAFT = np.array([[28, 20, 8, 8], [46, 6, 6, 6]]) / 64
_TARGET = np.array([[19, 21, 12, 12], [25, 13, 13, 13], [16, 16, 16, 16]]) / 64
"""Rows on which every built-in rule accepts, rejects and adds a bonus token to drafts 0, 0 and 1, 0: two
emissions are equal with a probability below 0.2."""

FAMILIES = 10
"""Families of tests that share the rate of a design: three for each order of the outcomes, and one more."""


@dataclass(frozen=True)
class CallSizes:
    """Calls to make: ``sizes`` of batches in turn, ``2 * half`` turns.

    ``beside_greedy``: every second request of a call is greedy, and is not compared.
    """

    sizes: tuple[int, ...]
    half: int
    beside_greedy: bool = False

    @property
    def requests(self) -> int:
        """How many requests it takes."""
        return 2 * self.half * sum(self.sizes)

    @property
    def size(self) -> str:
        """The batch sizes of a turn, for people."""
        return f"{_listed(self.sizes)}{' in turn' * (len(self.sizes) > 1)}"

    def __str__(self) -> str:
        greedy = " sampled and as many greedy" * self.beside_greedy
        return f"calls of {_listed(self.sizes)}{greedy} requests{' in turn' * (len(self.sizes) > 1)}"


def _listed(sizes: Sequence[int]) -> str:
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


BATCHES: Final = tuple(CallSizes((size,), half) for size, half in effort.BATCH_TURNS.items())
"""Calls that show dependence between requests of a batch."""

CHAINS: Final = (CallSizes((4,), CALLS_TURNS), CallSizes((1, 2, 16, 33), CALLS_TURNS))
"""Chains of calls, of one batch size and of several in turn, as engines keep graphs for each size."""

BESIDE_GREEDY: Final = CallSizes((16,), 151, beside_greedy=True)
"""Batches of code that takes greedy requests: numbers may be found by the place among all requests."""

Draw: TypeAlias = Callable[[CallSizes], Ints]
"""Makes the calls of a design; returns what they emit, int [2 half, C, L+1], padded with -1."""


def equal_requests(batch: int, num_paths: int) -> Paths:
    """Return that many equal requests; paths begin with 0 and 1 by turns, and go on with 0."""
    tokens = np.zeros((num_paths, len(_DRAFT)), dtype=np.int64)
    tokens[1::2, 0] = 1
    arrays = (tokens, *(np.tile(rows, (num_paths, 1, 1)) for rows in (_DRAFT, _TARGET)))
    return Paths(*(np.broadcast_to(array, (batch, *array.shape)) for array in arrays))


@part
def independent_calls(
    subject: CalledAsSampler, context: Context, rate: float, *, calls: int, requests: float
) -> CheckResult:
    """Judge whether equal requests of one call, or of so many ``calls`` in a row, share randomness.

    The budget pays so many ``requests``.
    """
    designs = BATCHES if calls == 1 else CHAINS
    if calls == 1 and subject.num_paths == 1 and "is_greedy" in parameters_of(subject.code.function):
        designs = (*designs, BESIDE_GREEDY)
    return independent(equal_calls(subject, context.seed), designs, rate, affordable=requests)


def independent(
    draw: Draw, designs: Sequence[CallSizes], alpha: float, *, affordable: float = math.inf
) -> CheckResult:
    """Judge emissions of equal requests, design by design, up to the first that shows dependence.

    With fewer than their requests ``affordable`` all designs shrink alike. The detail names the smallest
    couplings that would have been found, and designs without a result: batch sizes that the code is too slow
    for or refuses with an exception. Emissions that are all alike leave the check open.
    """
    share = min(1.0, affordable / max(sum(design.requests for design in designs), 1))
    rate, draws = split(alpha, len(designs)), 0
    found: dict[CallSizes, dict[str, float]] = {}
    silent, alike = [], []
    for design in (replace(design, half=int(design.half * share)) for design in designs):
        if design.half < 1:
            silent.append(f"{design}: too slow")
            continue
        try:
            outcomes = ordered(draw(design))
        except SubjectRaisedError as error:
            silent.append(f"{design}: {error}")
            continue
        draws += design.requests
        p_value, what = min(findings(outcomes, rate))
        if p_value <= rate:
            scope = (f"independence: p-value {p_value:.1e}",)
            return failed(f"{design}: {what}", draws=draws, alpha=alpha, how=How.SAMPLED, scope=scope)
        couplings = smallest_couplings(outcomes, rate)
        if min(couplings.values()) <= 1:
            found[design] = couplings
        elif (outcomes[0] == outcomes[0, 0, 0]).all():
            alike.append(f"{design}: all of {design.requests} results are equal")
        else:
            silent.append(f"{design}: too few")
    if alike or not found:
        return inconclusive("; ".join(alike + silent), alpha=alpha, draws=draws, how=How.SAMPLED)
    scope = (_detectable(found),)
    sizes = ", ".join(design.size for design in found if len(design.sizes) == 1 and not design.beside_greedy)
    turns = [design.size for design in found if len(design.sizes) > 1]
    beside = [f"{design.size} beside greedy requests" for design in found if design.beside_greedy]
    batches = ", and of ".join(filter(None, [sizes, *turns, *beside]))
    detail = f"no shared randomness found in batches of {batches}"
    return passed("; ".join([detail, *silent]), draws=draws, alpha=alpha, how=How.SAMPLED, scope=scope)


def _detectable(found: Mapping[CallSizes, Mapping[str, float]]) -> str:
    """Say for every kind of pair which coupling is detected in all designs."""
    pairs = next(iter(found.values()))
    worst = {pair: max(couplings[pair] for couplings in found.values()) for pair in pairs}
    each = ", ".join(f"{pair} {c:.2g}" if c <= 1 else f"{pair} none" for pair, c in worst.items())
    return f"smallest share of common random numbers that would be detected: {each}"


def equal_calls(subject: CalledAsSampler, seed: int) -> Draw:
    """Return the calls of a subject, with one generator for all designs."""
    generator = subject.code.generator(seed)

    def draw(design: CallSizes) -> Ints:
        def emitted(size: int) -> Ints:
            if not design.beside_greedy:
                return subject.code(equal_requests(size, subject.num_paths), generator).tokens
            is_greedy = np.arange(2 * size) % 2 == 0
            drafts = equal_requests(2 * size, subject.num_paths)
            tokens: Ints = subject.code(drafts, generator, {"is_greedy": is_greedy}).tokens[~is_greedy]
            return tokens

        return in_turn(emitted)(design)

    return draw


def in_turn(emit: Callable[[int], Ints]) -> Draw:
    """Return a function that makes the calls of a design; ``emit(size)`` returns emissions [size, L+1]."""

    def draw(design: CallSizes) -> Ints:
        turns = ([emit(size) for size in design.sizes] for _ in range(2 * design.half))
        return np.stack([np.concatenate(turn) for turn in turns])

    return draw


def ordered(tokens: Ints) -> Ints:
    """Return emissions [..., L+1] as numbers in three orders, int [3, ...].

    By their tokens: emissions that share the first accept tests lie together. By the last token: emissions
    that share its random number lie together. By the last accept test: failed, not reached, passed.
    """
    width, lengths = tokens.shape[-1], (tokens >= 0).sum(axis=-1)
    by_text = np.unique(tokens.reshape(-1, width), axis=0, return_inverse=True)[1].reshape(lengths.shape)
    last = np.take_along_axis(tokens, lengths[..., None] - 1, axis=-1)[..., 0]
    by_test = (lengths == width).astype(np.int64) - (lengths == width - 1)
    return np.stack([by_text, last * (width + 1) + lengths, by_test])


def findings(outcomes: Ints, alpha: float) -> Iterator[Finding]:
    """Yield the smallest p-value of each family of tests, times their number and that of the families.

    ``outcomes`` int [3, 2 half, C] as `ordered` returns them.
    """
    for order in outcomes:
        first, second = np.split(order, 2)
        yield from ((FAMILIES * p, what) for p, what in _by_signs(independence.fair_signs(first, second)))
    equal = _by_coincidences(outcomes[0], alpha / FAMILIES)
    yield from ((FAMILIES * p_value, what) for p_value, what in equal)


def _by_signs(signs: NDArray[np.int8]) -> Iterator[Finding]:
    """Yield the findings of distances: in a row, from later columns on, between rows, for single columns."""
    rows, columns = signs.shape
    starts = [0, *(2**k for k in range(2, columns.bit_length()) if 2**k < columns)]
    lags = [
        tuple(found[0, 1:columns] for found in independence.lagged_products(signs, start)) for start in starts
    ]
    p_value, (start, distance), seen = _smallest(*(np.stack(both) for both in zip(*lags, strict=True)))
    where = f", from request {starts[start]} on," if start else ""
    yield p_value, f"request b{where} depends on request b - {distance + 1} of its call: {seen}"
    if rows > 1:
        sums, edges = (found[1:] for found in independence.lagged_products(signs))
        p_value, (later, shift), seen = _smallest(sums, edges)
        apart = shift if shift < columns else shift - sums.shape[1]
        other = f"b {'-' if apart > 0 else '+'} {abs(apart)}" if apart else "b"
        yield p_value, f"request b depends on request {other} of the call {later + 1} earlier: {seen}"
        sums, edges = (found[:, 1:, 0] for found in independence.lagged_products(signs.T[..., None]))
        p_value, (column, later), seen = _smallest(sums, edges)
        yield p_value, f"request {column} depends on request {column} of the call {later + 1} earlier: {seen}"


def _smallest(sums: Ints, edges: Ints) -> tuple[float, tuple[int, ...], str]:
    """Return the smallest p-value times the number of tests, where it is, and what was seen there."""
    p_values = independence.fair_coin_p_values(sums, edges)
    index = np.unravel_index(int(p_values.argmin()), p_values.shape)
    tests = max(np.count_nonzero(edges), 1)
    seen = f"their tokens {'agree' if sums[index] > 0 else 'differ'} too often"
    return float(p_values[index] * tests), tuple(int(i) for i in index), seen


_EQUAL: Final = "their tokens are equal too often"


def _by_coincidences(outcomes: Ints, alpha: float) -> Iterator[Finding]:
    """Yield the findings of two columns, and of rows that are half of them apart or more.

    Pairs of rows so far apart are disjoint. The bound of a coincidence has the rate of one test.
    """
    rows, columns = outcomes.shape
    tests = columns * (columns - 1) // 2 + rows // 2 + 1
    bound = independence.coincidence_bound(outcomes, alpha / tests)
    equal = independence.coincidences(outcomes)
    one, other = np.unravel_index(int(equal.argmax()), equal.shape)
    p_value = independence.coincidence_p_value(int(equal[one, other]), rows, bound)
    yield tests * p_value, f"request {other} depends on request {one} of its call: {_EQUAL}"
    for later in range(rows // 2, rows):
        same = outcomes[later:] == outcomes[:-later]
        p_value = independence.coincidence_p_value(int(same.sum()), same.size, bound)
        yield tests * p_value, f"a call depends on the call {later} earlier: {_EQUAL}"


def smallest_couplings(outcomes: Ints, alpha: float) -> dict[str, float]:
    """Return the smallest couplings that `findings` finds with a probability of 0.999, infinite for none.

    A coupling is the probability with which two requests share all their random numbers: those at one
    distance in a row, of half of it at most; those of rows at one distance, likewise; a single pair of a row.
    """
    _, rows, columns = outcomes.shape
    rate = alpha / FAMILIES
    of_two = independence.coupling_found_by_coincidences(
        rows, outcomes[0], alpha=rate / (columns * (columns - 1) // 2 + rows // 2 + 1)
    )
    in_row = independence.coupling_found_by_signs(
        rows // 2 * (columns // 2), outcomes[0], alpha=rate / (columns * columns.bit_length())
    )
    of_rows = independence.coupling_found_by_signs(
        rows // 4 * columns, outcomes[0], alpha=rate / (rows * columns)
    )
    return {
        "between requests at one distance": min(in_row, of_two),
        "between calls": of_rows,
        "between two requests": of_two,
    }
