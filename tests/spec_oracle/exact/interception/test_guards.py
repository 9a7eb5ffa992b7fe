"""Guards of noise against zeros: which are traced, what they change at most, and which are refused."""
# ruff: noqa: PLW0108  (a draw must wait for its run)

import random
from itertools import pairwise, product

import numpy as np
import pytest

from spec_oracle.exact.interception import CannotTraceError, enumerate_calls, guarded
from spec_oracle.exact.interception.maps import affine, log, negation
from spec_oracle.exact.interception.races import changed_by_clamps, unguarded

torch = pytest.importorskip("torch")

WEIGHTS = torch.tensor([0.2, 0.5, 0.3, 0.0], dtype=torch.float64)
OF_NUMPY, RNG = WEIGHTS.numpy(), np.random.default_rng()
LAW = {0: 0.2, 1: 0.5, 2: 0.3}
MOST = 1e-6
"""Total variation that these guards may change."""


def noise(dtype=torch.float32):
    return torch.empty(4, dtype=dtype).exponential_()


def of_torch(guard):
    return lambda: (WEIGHTS / guard(noise())).argmax()


def of_gumbel(inner, outer=lambda value: value):
    return lambda: (WEIGHTS.log() - torch.log(outer(-torch.log(inner(torch.rand(4)))))).argmax()


def of_numpy(guard):
    return lambda: (OF_NUMPY / guard(RNG.exponential(size=4))).argmax()


def written(values, where, number):
    values[where] = number
    return values


def in_place(values):
    values.div_(noise().add_(1e-10))
    return values.argmax()


def logs():
    with np.errstate(divide="ignore"):
        return np.log(OF_NUMPY)


RACES = {
    "clamp(min=)": of_torch(lambda q: q.clamp(min=1e-10)),
    "clamp_": of_torch(lambda q: q.clamp_(min=1e-10)),
    "clamp_min": of_torch(lambda q: q.clamp_min(1e-10)),
    "clamp_min_": of_torch(lambda q: q.clamp_min_(1e-10)),
    "clamp at both ends": of_torch(lambda q: q.clamp(1e-10, 1e10)),
    "clamp at the smallest float": of_torch(lambda q: q.clamp(min=torch.finfo(torch.float32).tiny)),
    "clamp at the machine precision": of_torch(lambda q: q.clamp(min=torch.finfo(torch.float32).eps)),
    "clamp in float64": lambda: (WEIGHTS / noise(torch.float64).clamp(min=1e-20)).argmax(),
    "clamp in a batch": lambda: (WEIGHTS / torch.empty(2, 4).exponential_().clamp(min=1e-10)).argmax(-1)[0],
    "plus": of_torch(lambda q: q + 1e-10),
    "plus in float64": lambda: (WEIGHTS / (noise(torch.float64) + 1e-20)).argmax(),
    "add_": of_torch(lambda q: q.add_(1e-10)),
    "in place": lambda: in_place(WEIGHTS.clone()),
    "maximum": of_torch(lambda q: torch.maximum(q, torch.tensor(1e-10))),
    "where it is zero": of_torch(lambda q: torch.where(q == 0, torch.full_like(q, 1e-10), q)),
    "where it is small": of_torch(lambda q: torch.where(q < 1e-10, torch.full_like(q, 1e-10), q)),
    "masked_fill": of_torch(lambda q: q.masked_fill(q == 0, 1e-10)),
    "assignment": of_torch(lambda q: written(q, q == 0, 1e-10)),
    "nan_to_num": lambda: torch.nan_to_num(WEIGHTS / noise()).argmax(),
    "Gumbel, clamp": of_gumbel(lambda u: u.clamp(min=1e-10)),
    "Gumbel, clamp at both ends": of_gumbel(lambda u: u.clamp(1e-10, 1 - 1e-7)),
    "Gumbel, plus twice": of_gumbel(lambda u: u + 1e-10, lambda e: e + 1e-10),
    "Gumbel, clamp twice": of_gumbel(lambda u: u.clamp(min=1e-20), lambda e: e.clamp(min=1e-20)),
    "Gumbel, scaled": of_gumbel(lambda u: u * (1 - 2e-7) + 1e-7),
    "exponential of a uniform": lambda: (WEIGHTS / -torch.log(torch.rand(4).clamp(min=1e-10))).argmax(),
    "exponential of 1 - u": lambda: (WEIGHTS / -torch.log(1 - torch.rand(4) + 1e-10)).argmax(),
    "difference of logs": lambda: (WEIGHTS.log() - noise().clamp(min=1e-10).log()).argmax(),
    "numpy.maximum": of_numpy(lambda q: np.maximum(q, 1e-10)),
    "numpy.clip": of_numpy(lambda q: np.clip(q, 1e-10, None)),
    "clip of an array": of_numpy(lambda q: q.clip(1e-10)),
    "numpy, plus": of_numpy(lambda q: q + 1e-10),
    "numpy.where": of_numpy(lambda q: np.where(q == 0, 1e-10, q)),
    "numpy.where it is small": of_numpy(lambda q: np.where(q < 1e-10, 1e-10, q)),
    "numpy, assignment": of_numpy(lambda q: written(q, q == 0, 1e-10)),
    "numpy, Gumbel": lambda: (logs() - np.log(-np.log(RNG.random(4) + 1e-20) + 1e-20)).argmax(),
    "numpy, Gumbel, clip": lambda: (logs() - np.log(-np.log(RNG.random(4).clip(1e-10, 1 - 1e-10)))).argmax(),
}


def differs(branches, law):
    found = dict.fromkeys(law, 0.0)
    for branch in branches:
        found[int(branch.result)] += branch.weight
    return sum(abs(found[key] - law[key]) for key in law) / 2


@pytest.mark.parametrize("name", RACES)
def test_guarded_races_are_traced(name):
    branches = enumerate_calls(RACES[name])
    assert differs(branches, LAW) <= guarded(branches) + 1e-12
    assert guarded(branches) <= MOST


TESTS = {
    "clamp": lambda: torch.rand(1).clamp(min=1e-10) < 0.3,
    "plus": lambda: torch.rand(1) + 1e-10 < 0.3,
    "logarithm": lambda: torch.log(torch.rand(1, dtype=torch.float64) + 1e-10) < np.log(0.3),
    "sum of probabilities": lambda: (
        torch.tensor([0.3, 1.0]).double().cumsum(0)[0] > torch.rand(1).clamp(max=1 - 1e-7)
    ),
    "maximum": lambda: max(random.random(), 1e-10) < 0.3,
    "minimum": lambda: min(random.random(), 1 - 1e-10) < 0.3,
    "drawn again": lambda: next(u for u in iter(random.random, None) if u > 0) < 0.3,
}


@pytest.mark.parametrize("name", TESTS)
def test_guarded_accept_tests_are_traced(name):
    branches = enumerate_calls(TESTS[name])
    assert differs(branches, {True: 0.3, False: 0.7}) <= guarded(branches) + 2e-8  # 0.3 in float32


def test_a_small_ratio_is_no_guard():
    """Accepted with probability 1e-7 by the sign of a difference: exact, and not taken for a guard."""
    branches = enumerate_calls(lambda: RNG.random() - 1e-7 < 0)
    assert differs(branches, {True: 1e-7, False: 1 - 1e-7}) < 1e-15
    assert guarded(branches) == 0


@pytest.mark.parametrize("function", [lambda: RNG.random() < 0.3, of_torch(lambda q: q)])
def test_code_without_guards_leaves_nothing_out(function):
    assert guarded(enumerate_calls(function)) == 0


WRONG = {
    "a hundredth": of_torch(lambda q: q + 0.01),
    "a clamp at a hundredth": of_torch(lambda q: q.clamp(min=0.01)),
    "a thousandth of a uniform": of_gumbel(lambda u: u.clamp(1e-10, 1) * 0.999 + 0.001),
}


@pytest.mark.parametrize("name", WRONG)
def test_guards_that_change_the_winner_are_not_traced(name):
    """So large a guard changes the winner: it is not traced, and the line is one of the code's."""
    with pytest.raises(CannotTraceError, match=r"at .*test_guards\.py:\d+: "):
        enumerate_calls(WRONG[name])


def test_small_guards_that_add_up_are_not_traced():
    """Each is small enough, but both numbers are tested."""
    with pytest.raises(CannotTraceError, match="guards of noise change the distribution by up to 3e-05"):
        enumerate_calls(lambda: sum(bool(u < 0.3) for u in torch.rand(2).clamp(min=1.5e-5)))


def test_many_clamps_hardly_change_a_race():
    """They come to 3e-5 for 100 tokens, but two tokens must be small for another winner."""
    branches = enumerate_calls(
        lambda: (torch.ones(100) / torch.empty(100).exponential_().clamp(min=3e-7)).argmax()
    )
    assert 0 < guarded(branches) < 1e-8


def first_of(weights, clamped, clamp):
    """Return who wins E_i / w_i exactly, where E_i is ``clamp`` if i is clamped, and else above it, [n]."""
    ends = [clamp / weights[i] for i in range(len(weights)) if clamped[i]]
    won = np.zeros(len(weights))
    end, alive = min(ends, default=np.inf), 1.0
    starts = {i: clamp / weights[i] for i in range(len(weights)) if not clamped[i]}
    edges = sorted({*(start for start in starts.values() if start < end), end})
    for first, last in pairwise(edges):
        rates = {i: weights[i] for i, start in starts.items() if start <= first}
        some = alive * -np.expm1(-sum(rates.values()) * (last - first))
        for i, rate in rates.items():
            won[i] += some * rate / sum(rates.values())
        alive -= some
    if ends:
        won[max((i for i in range(len(weights)) if clamped[i]), key=lambda i: weights[i])] += alive
    return won


@pytest.mark.parametrize("share", [1e-4, 1e-2, 0.2])
@pytest.mark.parametrize("weights", [[1.0, 1.01], [0.2, 0.5, 0.3], [1e-5, 0.3, 0.7], [1e-3, 2e-3, 4e-3, 1.0]])
def test_the_bound_of_clamps_holds_in_races_that_are_summed_exactly(weights, share):
    weights, clamp = np.array(weights), -np.log1p(-share)
    law = sum(
        np.prod(np.where(clamped, share, 1 - share)) * first_of(weights, clamped, clamp)
        for clamped in product([True, False], repeat=len(weights))
    )
    assert law.sum() == pytest.approx(1)
    change = abs(law - weights / weights.sum()).sum() / 2
    assert change <= changed_by_clamps(weights, np.full(len(weights), share)) + 1e-15


def test_the_bound_of_clamps_is_no_bound_by_their_number():
    """Ten thousand clamps of probability 1e-6 of equal weights come to 1e-4 by the square of each."""
    assert changed_by_clamps(np.ones(10_000), np.full(10_000, 1e-6)) == pytest.approx(2e-4, rel=0.1)


def test_a_shift_is_bounded_by_the_density_of_the_noise():
    """The density of an exponential of rate 1 is 1 at most, and that of its logarithm 1/e."""
    exponential = negation(log(()))
    assert unguarded(affine(exponential, 1e-10, 1.0))[1] == pytest.approx(1e-10, rel=0.15)
    assert unguarded(affine(log(exponential), 1e-10, 1.0))[1] == pytest.approx(1e-10 / np.e, rel=0.15)
