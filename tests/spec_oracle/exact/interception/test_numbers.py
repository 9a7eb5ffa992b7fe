"""Random numbers pass for numbers: whatever foreign code asks them, their law is kept or it is told.

`COINS` are functions of p that land on True with probability p, each through another operation.
"""
# ruff: noqa: NPY002, PLW0108  (legacy functions and conversions are the subject; a draw must wait for its run)

import copy
import functools
import math
import pickle
import queue
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spec_oracle.exact.interception import (
    CannotTraceError,
    comparisons,
    enumerate_calls,
)
from tests.spec_oracle.exact.interception.support import call_law

RNG = np.random.default_rng()
KEPT = np.zeros(2)


def uniform():
    return RNG.random()


def buffer(p, make=lambda shape: np.zeros(shape)):
    rows = make((2, 3))
    rows[1] = RNG.random(3)
    return rows[1, 2] < p


def buffer_in_place(p):
    weights = np.ones(2)
    weights *= RNG.random(2)
    return weights[0] < p


def filled(p):
    numbers = np.empty(2, dtype=np.float32)
    RNG.random(out=numbers, dtype=np.float32)
    return numbers[1] < p


def buffer_of_singles(p):
    """Names of types have another meaning once a random number was made one: arrays must hold it still."""
    numbers = np.zeros(2, dtype=np.float32)
    numbers[0] = np.float32(uniform())
    return float(numbers[0]) < p


def in_a_thread(p):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(uniform() < p))
    thread.start()
    thread.join()
    return answers[0]


def in_a_pool(p):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: uniform() < p).result()


OLD_POOL = ThreadPoolExecutor(2)
ASKED, ANSWERED = queue.Queue(), queue.Queue()


def in_a_pool_of_threads(p, pool):
    """Two tasks at a time, for uniforms of before; the second one of them counts."""
    uniforms = RNG.random(2)
    return list(pool.map(lambda i: uniforms[i] < p, range(2)))[1]


def serve():
    while True:
        task = ASKED.get()
        try:
            ANSWERED.put(task())
        except TypeError as error:
            ANSWERED.put(error)


def in_an_old_thread(p):
    second = RNG.random(2)[1]
    ASKED.put(lambda: second < p)
    return ANSWERED.get()


OLD_POOL.submit(int).result()
threading.Thread(target=serve, daemon=True).start()


def inverse(p):
    weights = np.zeros(2)
    weights[:] = [p, 1 - p]
    return np.searchsorted(np.cumsum(weights / weights.sum()), uniform(), side="right") == 0


def deferred(p):
    u = uniform()
    same = copy.deepcopy([u])[0] is copy.copy(u)
    return same and u < p


COINS = {
    "format": lambda p: (u := uniform()) < p and f"{u} {u:.3f} {u!r}" != "",
    "format of arrays": lambda p: (u := RNG.random(2))[0] < p and f"{u} {u!r}" != "",
    "isinstance": lambda p: isinstance(u := uniform(), float) and u < p,
    "isinstance of numpy": lambda p: isinstance(u := RNG.random(1)[0], np.floating) and u < p,
    "ceil": lambda p: math.ceil(uniform() - p) == 0,
    "numpy ceil": lambda p: np.ceil(RNG.random(1) - p)[0] == 0,
    "absolute": lambda p: abs(uniform() - 0.5) < p / 2,
    "clip by name": lambda p: np.clip(RNG.random(1), a_min=p, a_max=None)[0] == p,
    "clip by short name": lambda p: np.clip(RNG.random(1), min=p)[0] == p,
    "item": lambda p: RNG.random((2, 2))[1, 0].item() < p,
    "float": lambda p: float(uniform()) < p,
    "int": lambda p: isinstance(u := int(RNG.integers(2**53)), int) and u < p * 2**53,
    "int of a product": lambda p: int(uniform() * 2**60) < int(p * 2**60) and int("11", 2) == 3,
    "int, and bytes": lambda p: int(RNG.integers(2**53)) < p * 2**53 and int.from_bytes(b"\1", "big") == 1,
    "square root": lambda p: math.sqrt(uniform()) < math.sqrt(p),
    "logarithm": lambda p: math.log(uniform()) < math.log(p) and math.log(2, 4) == 0.5,
    "numpy double": lambda p: isinstance(u := np.float64(uniform()), np.float64) and u < p,
    "numpy single": lambda p: float(np.float32(uniform())) < p,
    "single of an array": lambda p: np.float32(RNG.random(2))[1] < p,
    "cast of a scalar": lambda p: RNG.random(2)[1].astype(np.float32).astype(np.dtype(np.float64)) < p,
    "float of an array": lambda p: float(RNG.random(1)[0]) < p,
    "list": lambda p: RNG.random(3).tolist()[1] < p,
    "dtype": lambda p: (u := RNG.random(2)).dtype == np.float64 and u.dtype.kind == "f" and u[1] < p,
    "issubdtype": lambda p: np.issubdtype((u := RNG.random(2)).dtype, np.floating) and u[1] < p,
    "result_type": lambda p: np.result_type(u := RNG.random(2), 1.0) == np.float64 and u[0] < p,
    "array of numbers": lambda p: np.array([uniform(), 0.5], dtype=float)[0] < p,
    "array of rows": lambda p: np.array([RNG.random(2), RNG.random(2)])[1, 0] < p,
    "asarray": lambda p: np.asarray([uniform()], dtype=np.float64)[0] < p,
    "astype float32": lambda p: RNG.random(1).astype(np.float32)[0] < p,
    "buffer": buffer,
    "empty buffer": lambda p: buffer(p, lambda shape: np.empty(shape)),
    "buffer like another": lambda p: buffer(p, lambda shape: np.zeros_like(np.ones(shape))),
    "buffer in place": buffer_in_place,
    "filled": filled,
    "buffer of a code that makes numbers": buffer_of_singles,
    "CDF in a buffer": inverse,
    "spawn": lambda p: RNG.spawn(2)[1].random() < p,
    "numpy Generator": lambda p: np.random.Generator(np.random.PCG64(3)).random() < p,
    "integers": lambda p: RNG.integers(2**53) / 2**53 < p,
    "python bits": lambda p: random.getrandbits(53) / (1 << 53) < p,
    "python integer": lambda p: random.randint(0, 2**63 - 1) < p * 2**63,
    "legacy integers": lambda p: np.random.randint(2**31 - 1) / (2**31 - 1) < p,
    "copies": deferred,
}


@pytest.mark.parametrize("name", COINS)
@pytest.mark.parametrize("p", [0.3, 0.301])
def test_the_law_is_kept(name, p):
    law = call_law(lambda: bool(COINS[name](p)), lambda result: result)
    assert law == pytest.approx({True: p, False: 1 - p}, abs=1e-9)


def test_long_ranges_are_steps():
    assert call_law(lambda: RNG.integers(5000) < 2, bool)[True] == pytest.approx(2 / 5000, rel=1e-12)
    assert call_law(lambda: RNG.integers(5000) <= 2, bool)[True] == pytest.approx(3 / 5000, rel=1e-12)
    assert call_law(lambda: RNG.integers(5000) == 2, bool)[True] == pytest.approx(1 / 5000, rel=1e-12)


IN_THREADS = {
    "thread": in_a_thread,
    "pool": in_a_pool,
    "compared in a pool": lambda p: in_a_pool_of_threads(p, ThreadPoolExecutor(2)),
    "compared in an old pool": lambda p: in_a_pool_of_threads(p, OLD_POOL),
    "compared in an old thread": in_an_old_thread,
}


@pytest.mark.parametrize("name", IN_THREADS)
def test_other_threads_are_refused(name):
    with pytest.raises(CannotTraceError, match="another thread"):
        enumerate_calls(lambda: IN_THREADS[name](0.3))


def test_a_decision_in_an_older_thread_fails_the_run():
    def asks():
        u = uniform()
        ASKED.put(lambda: math.sin(u))
        return isinstance(ANSWERED.get(), float)

    with pytest.raises(CannotTraceError, match="another thread"):
        enumerate_calls(asks)


STEPS = {
    "floor": lambda u: np.floor(u * 100) / 100,
    "scaled": lambda u: 0.5 + np.floor((1 - u) * 1000) / 2000,
    "remainder of a grid": lambda u: 1 - np.trunc(u * 500) * 0.002,
}
MIDDLES = (np.arange(64_000) + 0.5) / 64_000
"""Of intervals on which every function of `STEPS` is constant."""


@functools.cache
def values_of(name):
    return np.array([STEPS[name](u) for u in MIDDLES])


@pytest.mark.parametrize("name", STEPS)
def test_functions_with_steps_are_decided_between_their_values(name):
    bound = 0.2937
    below = np.mean(values_of(name) * 0.7 < bound * 0.7)
    law = call_law(lambda: STEPS[name](uniform()) * 0.7 < bound * 0.7, bool)
    assert law.get(True, 0) == pytest.approx(below, abs=1e-12)


def test_steps_are_refused_where_rounding_decides():
    """Whether 0.29 * 0.7 is below 0.29 * 0.7 depends on how both are rounded."""
    with pytest.raises(CannotTraceError, match="rounding decides"):
        call_law(lambda: np.floor(uniform() * 100) / 100 * 0.7 < 0.29 * 0.7, bool)


def test_sorting_and_argmax_have_the_law_of_a_race():
    weights = np.array([0.2, 0.5, 0.3])

    def places(function):
        return call_law(lambda: int(function(weights / RNG.exponential(size=3))), int)

    expected = pytest.approx({0: 0.2, 1: 0.5, 2: 0.3})
    assert places(lambda scores: np.argsort(-scores)[0]) == expected
    assert places(lambda scores: scores.argsort()[-1]) == expected
    assert places(lambda scores: np.argsort(scores)[-1]) == expected
    law = call_law(
        lambda: tuple((-weights / RNG.exponential(size=3)).argsort().tolist()), lambda order: order
    )
    assert law == pytest.approx(
        {
            (i, j, 3 - i - j): weights[i] * weights[j] / (1 - weights[i])
            for i in range(3)
            for j in range(3)
            if i != j
        }
    )


def test_the_largest_of_exponentials():
    """P(E_1 > E_2) = r_2 / (r_1 + r_2) for rates r."""
    law = call_law(lambda: int((RNG.exponential(size=2) * np.array([1.0, 3.0])).argmax()), int)
    assert law == pytest.approx({0: 0.25, 1: 0.75})


class Box(float):
    pass


REFUSED = {
    "sine": lambda: math.sin(uniform()) < 0.5,
    "shuffle": lambda: RNG.shuffle(np.arange(3)),
    "array of before": lambda: KEPT.__setitem__(0, uniform()),
    "slice of before": lambda: KEPT.__setitem__(slice(None), RNG.random(2)),
    "in place of before": lambda: np.multiply(KEPT, RNG.random(2), out=KEPT),
    "out of before": lambda: RNG.random(out=KEPT),
    "subclass of float": lambda: Box(uniform()) < 0.5,
    "long double": lambda: np.longdouble(uniform()) < 0.5,
    "linear algebra": lambda: np.linalg.det(RNG.random((2, 2))) < 0.5,
    "hash": lambda: {uniform(): 1},
    "pickle": lambda: pickle.dumps(uniform()),
    "bytes": lambda: RNG.random(2).tobytes(),
    "method": lambda: RNG.random(2)[0].is_integer(),
    "remainder": lambda: uniform() * 4 % 1 < 0.5,
    "bits of a long integer": lambda: RNG.integers(2**64, dtype=np.uint64) >> 11,
    "round": lambda: np.round(uniform(), 2) < 0.5,
    "round of arrays": lambda: RNG.random(2).round(1)[0] < 0.5,
    "returned text": lambda: f"{uniform():.2f}",
    "half precision": lambda: RNG.random(1).astype(np.float16)[0] < 0.3,
    "product in half precision": lambda: (RNG.random(2) * np.float16([0.5, 1]))[0].astype(np.float16) < 0.3,
    "race of whole numbers": lambda: int(np.argmax(np.floor(RNG.gumbel(size=2) * 100))),
    "ties by rounding": lambda: RNG.integers(10_000) / 10_000 < 0.3,
    "bits of a generator": lambda: RNG.bit_generator.random_raw(),
    "bytes of an int": lambda: int(RNG.integers(2**62)).to_bytes(8, "big"),
    "rest of an int": lambda: int(RNG.integers(2**62)) % 7,
    "unknown of Random": lambda: random.Random(1).gauss(0, 1) < 0,
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_operations_are_refused(name):
    with pytest.raises(CannotTraceError, match=r"at .*test_numbers|return value"):
        enumerate_calls(REFUSED[name])


def test_float_and_int_are_left_as_they_were():
    call_law(lambda: float(uniform()) < 0.3 and int(RNG.integers(2**62)) > 0, bool)
    assert not {"float", "int"} & {*globals()}


def filled_buffer():
    buffer = np.zeros((2, 3))
    buffer[0] = [0.5, 0.25, 0.125]
    buffer[1, 1:] = 1, 2
    return buffer


def changed(change):
    buffer = filled_buffer()
    change(buffer)
    return buffer


ON_NUMBERS = {
    "sum": lambda b: b.sum(axis=-1, keepdims=True),
    "mean": lambda b: b.mean(axis=0),
    "standard deviation": lambda b: b.std(),
    "largest": lambda b: b.max(axis=1),
    "argmax": lambda b: b.argmax(axis=-1),
    "argmax with NaN": lambda b: (b / b.sum(axis=0) * [[np.nan], [1.0]]).argmax(),
    "argsort": lambda b: np.argsort(b, axis=-1, kind="stable"),
    "sorted": lambda b: np.sort(b, axis=None),
    "cumulative": lambda b: np.cumsum(b, axis=1),
    "searchsorted": lambda b: np.searchsorted(np.cumsum(b[0]), [0.6, 0.1], side="right"),
    "logarithm": lambda b: np.log(b),
    "product": lambda b: b @ np.ones(3),
    "dot": lambda b: np.dot(b, b.T),
    "einsum": lambda b: np.einsum("ij,kj->ik", b, b),
    "norm": lambda b: np.linalg.norm(b),
    "solve": lambda b: np.linalg.solve(b[:, 1:], np.ones(2)),
    "where": lambda b: np.where(b > 0.2, b, -1.0),
    "stack": lambda b: np.concatenate([b, np.ones((1, 3))]),
    "round": lambda b: np.round(b, 1),
    "clip": lambda b: b.clip(0.2, 0.4),
    "division by zero": lambda b: b[0, 0] / b[1, 0],
    "nonzero": lambda b: np.flatnonzero(b),
    "isclose": lambda b: np.isclose(b, 0.5),
    "integers": lambda b: (b * 8).astype(int),
    "in place": lambda _: changed(lambda b: b.__itruediv__(b.sum(axis=1, keepdims=True))),
    "out": lambda _: changed(lambda b: np.add(b, 1.0, out=b)),
    "at": lambda _: changed(lambda b: np.add.at(b, ([0, 0], [1, 1]), 2.0)),
    "view": lambda _: changed(lambda b: np.reshape(b, -1).__setitem__(slice(2, 4), 7)),
    "transposed view": lambda _: changed(lambda b: b.T.fill(3)),
    "copyto": lambda _: changed(lambda b: np.copyto(b, 1.0, where=b > 0.2)),
    "put": lambda _: changed(lambda b: np.put_along_axis(b, np.array([[0], [2]]), 9.0, axis=1)),
    "random order": lambda b: np.take_along_axis(b, np.argsort(b, axis=1), axis=1),
}


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_arrays_without_random_numbers_compute_as_always(name):
    with np.errstate(all="ignore"):
        expected = ON_NUMBERS[name](filled_buffer())
        ((weight, found, *_),) = enumerate_calls(lambda: ON_NUMBERS[name](filled_buffer()))
    assert weight == 1
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def _race_of(size, before):
    weights = np.arange(1.0, size + 1)
    weights[::3] = 0.0

    def run():
        noise = np.random.default_rng().exponential(size=size)
        is_late = before and noise[1] > 1.0
        return int(np.argmax(weights / noise)) if not is_late else -1

    return run, weights / weights.sum()


def test_every_run_of_a_race_finds_its_formulas_known(monkeypatch):
    computed = []

    def counted(name):
        compute = comparisons.FUNCTIONS[name]
        return lambda *values: computed.append(name) or compute(*values)

    monkeypatch.setattr(comparisons, "remembering", counted)
    run, law = _race_of(211, before=False)
    found = call_law(run, int)
    assert np.allclose([found.get(token, 0.0) for token in range(211)], law, atol=1e-12)
    assert len(computed) == 211  # once, not once in each of 140 runs


def test_facts_about_fresh_noises_do_not_hold_for_compared_ones():
    run, _ = _race_of(211, before=False)
    call_law(run, int)
    compared, _ = _race_of(211, before=True)
    with pytest.raises(CannotTraceError, match="compared before"):
        call_law(compared, int)
