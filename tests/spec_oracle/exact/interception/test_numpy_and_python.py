"""Random functions of numpy and of Python, and the arithmetic on what they draw."""
# ruff: noqa: NPY002, PLW0108  (legacy functions are the subject; a draw must wait for its run)

import random

import numpy as np
import pytest

from spec_oracle.exact.interception import UnrepeatableError, enumerate_calls, sample_call
from tests.spec_oracle.exact.interception.support import call_law

WEIGHTS = np.array([0.2, 0.5, 0.3, 0.0])
LAW = {0: 0.2, 1: 0.5, 2: 0.3}
RNG = np.random.default_rng()


def law(function):
    return call_law(function, lambda result: tuple(result.tolist()) if np.ndim(result) else int(result))


def logs(weights):
    with np.errstate(divide="ignore"):
        return np.log(weights)


DRAWS = {
    "race": lambda: np.argmax(WEIGHTS / RNG.exponential(size=4)),
    "race to the minimum": lambda: (RNG.standard_exponential(4)[:3] / WEIGHTS[:3]).argmin(),
    "Gumbel": lambda: np.argmax(logs(WEIGHTS) + RNG.gumbel(size=4)),
    "Gumbel of uniforms": lambda: (logs(WEIGHTS) - np.log(-np.log(RNG.random((1, 4))))).argmax(axis=-1)[0],
    "choice": lambda: RNG.choice(4, p=WEIGHTS),
    "choice of one": lambda: RNG.choice(np.arange(4), size=(1, 1), p=WEIGHTS)[0, 0],
    "multinomial": lambda: RNG.multinomial(1, WEIGHTS).argmax(),
    "searchsorted": lambda: np.searchsorted(WEIGHTS.cumsum(), RNG.random(1), side="right")[0],
    "searchsorted scalar": lambda: np.searchsorted(WEIGHTS.cumsum(), RNG.random()),
    "argmax of a CDF": lambda: (WEIGHTS.cumsum() > RNG.uniform()).argmax(),
    "count": lambda: (WEIGHTS.cumsum() * 5 < RNG.uniform(0, 5, size=1)).sum(),
    "legacy choice": lambda: np.random.choice(4, p=WEIGHTS),
    "legacy uniform": lambda: (WEIGHTS.cumsum() < np.random.rand()).sum(),
    "legacy state": lambda: (WEIGHTS.cumsum() < np.random.RandomState(3).random_sample()).sum(),
    "fresh generator": lambda: np.random.default_rng(0).choice(4, p=WEIGHTS),
    "python choices": lambda: random.choices(range(4), WEIGHTS.tolist())[0],
    "python cumulative": lambda: random.choices(range(4), cum_weights=WEIGHTS.cumsum())[0],
    "python uniform": lambda: int((WEIGHTS.cumsum() < random.random()).sum()),
    "python clock": lambda: int((1 - np.exp(-random.expovariate(2) * 2) > WEIGHTS.cumsum()).sum()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_way_to_draw_a_token(name):
    assert law(DRAWS[name]) == pytest.approx(LAW, abs=1e-14)


ROWS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])


def winners():
    """Winners of two races that share their noise, as vLLM's replacements of one request."""
    return (ROWS / RNG.exponential(size=3)).argmax(axis=1)


def stored():
    tokens = np.full(3, -1)
    tokens[:2] = np.array([7, 7])
    tokens[np.array([1])] = winners()[np.array([False, True])]
    return tokens[1]


@pytest.mark.parametrize(
    "used",
    [
        lambda: winners()[1],
        lambda: winners().astype(np.int32)[1],
        lambda: np.where([True, False], 7, winners())[1],
        lambda: np.take_along_axis(winners()[None], np.array([[1]]), 1)[0, 0],
        stored,
    ],
    ids=["indexed", "converted", "chosen by where", "taken along an axis", "stored"],
)
def test_one_of_several_winners_of_shared_noise_may_be_used(used):
    assert law(used) == pytest.approx(dict(enumerate(ROWS[1])))


def test_integers_are_uniform():
    third = pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert law(lambda: RNG.integers(3)) == third
    assert law(lambda: RNG.integers(1, 3, endpoint=True) - 1) == third
    assert law(lambda: np.random.randint(0, 3)) == third
    assert law(lambda: int(RNG.random() * 3)) == third
    assert law(lambda: random.randrange(3)) == third
    assert law(lambda: random.Random(7).choice([0, 1, 2])) == third


def test_binomial_counts_are_trials():
    assert law(lambda: RNG.binomial(1, 0.3)) == pytest.approx({0: 0.7, 1: 0.3})
    assert law(lambda: np.random.binomial(2, 0.5)) == pytest.approx({0: 0.25, 1: 0.5, 2: 0.25})
    both = law(lambda: RNG.binomial(1, [0.3, 1.0]))
    assert both == pytest.approx({(0, 1): 0.7, (1, 1): 0.3})
    assert law(lambda: RNG.binomial(1, np.full((1, 1), 0.3), size=(2, 1)).sum()) == pytest.approx(
        {0: 0.49, 1: 0.42, 2: 0.09}
    )
    with pytest.raises(ValueError, match="p > 1"):
        law(lambda: RNG.binomial(1, 1.5))


def test_multinomial_gives_the_last_outcome_what_the_others_leave():
    """As numpy does: rows of float32 that sum to 1 but for their rounding are no mistake."""
    row = np.array([0.7, 0.7, 0.7], dtype=np.float32)
    row /= row.sum()
    off = np.array([row[0], row[1], row[2] + np.float32(1e-3)])
    for weights in (row, off):
        expected = {0: float(row[0]), 1: float(row[1]), 2: 1 - float(row[0]) - float(row[1])}
        found = law(lambda weights=weights: RNG.multinomial(1, weights).argmax())
        assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("row", "says"),
    [([0.5, 0.6, 0.2], "> 1.0"), ([0.2, np.nan, 0.8], "contains NaNs"), ([-0.1, 0.6, 0.5], "pvals < 0")],
)
def test_multinomial_refuses_what_numpy_refuses(row, says):
    for generator in (RNG.multinomial, lambda *given: law(lambda: RNG.multinomial(*given).argmax())):
        with pytest.raises(ValueError, match=says):
            generator(1, row)


def test_choice_without_replacement():
    expected = {(i, j): LAW[i] * LAW[j] / (1 - LAW[i]) for i in range(3) for j in range(3) if i != j}
    assert law(lambda: RNG.choice(4, size=2, replace=False, p=WEIGHTS)) == pytest.approx(expected)


def test_one_draw_is_one_draw():
    def function():
        u = RNG.random(2)
        again = np.stack([u, u])[::-1].copy()[1, 0]
        return np.array([u[0] < 0.5, 1 - again < 0.75, np.log(u[0]) < np.log(0.125)])

    expected = {(True, True, False): 0.25, (True, False, False): 0.125, (True, False, True): 0.125}
    assert law(function) == pytest.approx(expected | {(False, True, False): 0.5})


def test_recycled_uniform_is_uniform_again():
    def function():
        u = RNG.random()
        accepted = u < 0.3
        u = u / 0.3 if accepted else (u - 0.3) / 0.7
        return np.array([accepted, u < 0.4])

    expected = {(True, True): 0.12, (True, False): 0.18, (False, True): 0.28, (False, False): 0.42}
    assert law(function) == pytest.approx(expected)


def test_clipping_is_a_decision():
    outcomes = law(lambda: np.clip(RNG.random(1), 0.25, 0.75) * 4 <= np.array([1.0]))
    assert outcomes == pytest.approx({(True,): 0.25, (False,): 0.75})


def test_shuffles_are_uniform():
    def function():
        deck = [0, 1, 2]
        random.shuffle(deck)
        return np.array(deck)

    assert list(law(function).values()) == pytest.approx([1 / 6] * 6)


def test_import_does_not_load_torch():
    import subprocess
    import sys

    code = "import sys, spec_oracle.exact, spec_oracle.exact.interception;"
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True)


def test_methods_that_were_kept_draw_as_always():
    """They allocate arrays by numpy's own functions, from C: they must not be given ours to write into."""
    real = np.random.default_rng(3)
    uniforms, exponentials = real.random, real.exponential

    def call():
        noise = [uniforms((2, 3)), exponentials(size=3), np.zeros(3)]
        return sum(float(array.sum()) for array in noise) * 0 + RNG.choice(4, p=WEIGHTS)

    assert law(call) == pytest.approx(LAW, abs=1e-14)


def test_sampled_calls_follow_a_script_of_earlier_decisions():
    def three(chance=0.25):
        return tuple(random.random() < chance for _ in range(3))

    branches = enumerate_calls(three)
    for branch in branches:
        leaf = sample_call(three, np.random.default_rng(0), 60.0, branch.script[:2])
        assert leaf.result[:2] == branch.result[:2]
    with pytest.raises(UnrepeatableError, match="other random decisions"):
        sample_call(lambda: three(0.5), np.random.default_rng(0), 60.0, branches[0].script[:2])
