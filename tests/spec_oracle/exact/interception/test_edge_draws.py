"""Uniforms at their edges, by whatever name they are drawn, are values that the library could return."""
# ruff: noqa: NPY002  (legacy functions are the subject)

import math
import random

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.interception.edge_draws import edge_draws
from tests.strategies import by_day

torch = pytest.importorskip("torch")

BELOW_ONE = {
    "float64": 1 - 2.0**-53,
    "float32": 1 - 2.0**-24,
}
LONGEST = 53 * math.log(2)
"""-log of the smallest double uniform above 0."""

NUMPY = {
    "random": lambda rng, n: rng.random(n),
    "random one by one": lambda rng, n: np.array([rng.random() for _ in range(n)]),
    "random of float32": lambda rng, n: rng.random(n, dtype=np.float32),
    "random out": lambda rng, n: rng.random(out=np.empty(n)),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "legacy random": lambda _, n: np.random.random(n),
    "legacy rand": lambda _, n: np.random.rand(n),
    "legacy uniform": lambda _, n: np.random.uniform(size=n),
    "legacy state": lambda _, n: np.random.RandomState(1).random_sample(n),
    "fresh generator": lambda _, n: np.random.default_rng(1).random(n),
    "spawned generator": lambda rng, n: rng.spawn(1)[0].random(n),
    "python random": lambda _, n: np.array([random.random() for _ in range(n)]),
    "python uniform": lambda _, n: np.array([random.uniform(0, 1) for _ in range(n)]),
    "python object": lambda _, n: np.array([random.Random(1).random() for _ in range(n)]),
}
TORCH = {
    "rand": lambda g, n: torch.rand(n, generator=g, dtype=torch.float64),
    "rand of float32": lambda g, n: torch.rand(n, generator=g),
    "rand out": lambda _, n: torch.rand(n, out=torch.empty(n)),
    "rand_like": lambda _, n: torch.rand_like(torch.empty(n)),
    "uniform_": lambda g, n: torch.empty(n).uniform_(generator=g),
    "init": lambda _, n: torch.nn.init.uniform_(torch.empty(n)),
    "distribution": lambda _, n: torch.distributions.Uniform(torch.tensor(0.0), torch.tensor(1.0)).sample(
        (n,)
    ),
}


@pytest.mark.parametrize(
    ("library", "name"), [("numpy", name) for name in NUMPY] + [("torch", n) for n in TORCH]
)
def test_a_third_is_zero_and_a_third_just_under_one(library, name):
    """False alarm of each share: below 1e-9, by Hoeffding's inequality at 900 draws and 0.12."""
    with edge_draws(library, 0) as edges:
        drawn = (NUMPY | TORCH)[name](edges.generator, 900)
        below_one = BELOW_ONE[str(drawn.dtype).removeprefix("torch.")]
        values = np.asarray(drawn.tolist())
        assert edges.drawn == np.isin(values, [0, below_one]).sum()
    assert abs((values == 0).mean() - 1 / 3) < 0.12
    assert abs((values == below_one).mean() - 1 / 3) < 0.12
    assert ((values >= 0) & (values <= below_one)).all()


DERIVED = {
    "numpy uniform": ("numpy", lambda g: g.uniform(2, 3, size=50), 2, 3 - 2.0**-52),
    "numpy exponential": ("numpy", lambda g: g.exponential(2.0, size=50), 0, 2 * LONGEST),
    "numpy standard exponential": ("numpy", lambda g: g.standard_exponential(50), 0, LONGEST),
    "legacy exponential": ("numpy", lambda _: np.random.standard_exponential(50), 0, LONGEST),
    "numpy Gumbel": ("numpy", lambda g: g.gumbel(size=50), -math.log(LONGEST), LONGEST),
    "python clock": ("numpy", lambda _: np.array([random.expovariate(2) for _ in range(50)]), 0, LONGEST / 2),
    "torch uniform": ("torch", lambda _: torch.empty(50).uniform_(1, 2), 1, None),
    "torch exponential": ("torch", lambda _: torch.empty(50).double().exponential_(), 2.0**-53, LONGEST),
    "torch exponential of float32": (
        "torch",
        lambda _: torch.empty(50).exponential_(),
        2.0**-24,
        24 * math.log(2),
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_derived_laws_have_the_ends_of_their_formulas(name):
    library, draw, low, high = DERIVED[name]
    with edge_draws(library, 0) as edges:
        values = np.asarray(draw(edges.generator).tolist())
        assert edges.drawn > 10
    assert values.min() == pytest.approx(low, rel=1e-6)
    if high is None:  # what float32 rounds to the upper end
        assert values.max() < 2
    else:
        assert values.max() == pytest.approx(high, rel=1e-6)


def test_coins_land_as_their_chance_demands():
    with edge_draws("torch", 0) as edges:
        coins = torch.bernoulli(torch.tensor([0.0, 1.0]).repeat(50))
        assert edges.drawn > 10
    assert coins.tolist() == [0.0, 1.0] * 50


def test_other_distributions_draw_as_always():
    with edge_draws("numpy", 0) as edges:
        normal = [*edges.generator.normal(size=300), *np.random.normal(size=300)]
        edges.generator.integers(5, size=10)
        assert edges.drawn == 0
    assert abs(np.mean(normal)) < 0.3
    with edge_draws("torch", 0) as edges:
        assert abs(float(torch.randn(500).mean())) < 0.3
        assert edges.drawn == 0


WORDS = {
    "numpy words": ("numpy", lambda g: g.integers(0, 2**32, size=50, dtype=np.uint64), 2**32),
    "legacy words": ("numpy", lambda _: np.random.randint(0, 2**24, size=50), 2**24),
    "python bits": ("numpy", lambda _: np.array([random.getrandbits(32) for _ in range(50)]), 2**32),
    "torch words": ("torch", lambda g: torch.randint(0, 2**32, (50,), generator=g), 2**32),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_that_stand_for_uniforms_have_their_ends(name):
    """All bits of a word are 0 or 1 in a third of draws each; none of 50 is with probability 1e-8."""
    library, draw, count = WORDS[name]
    with edge_draws(library, 0) as edges:
        words = draw(edges.generator).tolist()
        assert edges.drawn > 10
    assert (min(words), max(words)) == (0, count - 1)


def test_choices_are_extreme_and_possible():
    """A choice of probability 1e-6 is made in a third of all draws, one of probability 0 never."""
    law = [0.0, 0.5, 0.5 - 1e-6, 1e-6, 0.0]
    with edge_draws("torch", 0) as edges:
        drawn = [
            edges.generator and np.random.choice(5, p=law, size=90).tolist(),
            np.random.default_rng().choice(5, p=law, size=90).tolist(),
            random.choices(range(5), law, k=90),
            torch.multinomial(torch.tensor(law, dtype=torch.float64), 90, replacement=True).tolist(),
        ]
    for indices in drawn:
        assert {1, 3} <= set(indices) <= {1, 2, 3}


def test_patched_functions_are_restored():
    before = (np.random.rand, random.random, torch.get_rng_state().tolist())
    with edge_draws("torch", 0):
        torch.rand(3), np.random.rand(3), random.random()
    after = (np.random.rand, random.random, torch.get_rng_state().tolist())
    assert before == after


def verifier(draw, *, accepts_at_zero):
    """Accept or correct by inversion; ``draw(generator)`` returns a uniform. The defect is ``<=``."""

    def verify(tokens, draft, target, generator):
        emitted = np.full((len(tokens), tokens.shape[1] + 1), -1)
        accepted = np.zeros(len(tokens), dtype=int)
        for b, row in enumerate(tokens):
            for i, token in enumerate([*row, -1]):
                u, left = float(draw(generator)), target[b, i]
                if token >= 0:
                    bound = target[b, i, token] / draft[b, i, token]
                    if (u <= bound) if accepts_at_zero else (u < bound):
                        emitted[b, i] = token
                        accepted[b] += 1
                        continue
                    left = np.maximum(target[b, i] - draft[b, i], 0)
                    left = left if left.sum() > 0 else target[b, i]
                cumulative = np.cumsum(left / left.sum())
                cumulative[np.flatnonzero(left)[-1] :] = 1.0
                emitted[b, i] = np.searchsorted(cumulative, float(draw(generator)), side="right")
                break
        return emitted, accepted

    return verify


@pytest.mark.parametrize(
    "name", by_day(NUMPY, ["random of float32", "legacy rand", "spawned generator", "python random"])
)
def test_the_same_defect_is_found_by_any_name(name):
    for accepts_at_zero in (False, True):
        code = SamplerCode(verifier(lambda g: NUMPY[name](g, 1)[0], accepts_at_zero=accepts_at_zero))
        found = result_of("bad-input", SamplerSubject("mine", code), Context(budget=1000.0))
        assert ("random numbers exactly 0 or just under 1: request" in found.detail) == accepts_at_zero
        assert found.status is (Status.FAILED if accepts_at_zero else Status.PASSED)
