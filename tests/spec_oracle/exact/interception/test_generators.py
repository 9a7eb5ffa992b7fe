"""Generators are traced wherever they were made; those of equal seeds, and copies, draw the same numbers."""
# ruff: noqa: NPY002, PLW0108  (legacy functions are a subject; a draw must wait for its run)

import copy
import pickle
import random
import secrets
from random import choices as choices_by_name
from random import random as uniform_by_name

import numpy as np
import pytest
from numpy.random import rand as legacy_by_name

from spec_oracle.exact.interception import (
    ASKED,
    CannotTraceError,
    OwnSeeds,
    enumerate_calls,
    interception,
    sample_call,
)
from tests.spec_oracle.exact.interception.support import call_law

torch = pytest.importorskip("torch")

PYTHON, NUMPY, LEGACY = random.Random(), np.random.default_rng(5), np.random.RandomState()
TORCH, OF_SYSTEM = torch.Generator(), random.SystemRandom()


class OfUser(random.Random):
    """A class of the user's that keeps Python's methods."""


OF_USER = OfUser()


def by_default(generator=np.random.Generator(np.random.Philox(3))):  # noqa: B008  (made at import)
    return generator.random()


class Keeper:
    def __init__(self):
        self.generators = {"one": random.Random(3)}

    def draw(self):
        return self.generators["one"].random()


def of_closure():
    generator = np.random.default_rng()
    return lambda: generator.random()


MADE_BEFORE = {
    "Python": lambda: PYTHON.random(),
    "Python, uniform": lambda: PYTHON.uniform(0, 1),
    "Python, of a subclass": lambda: OF_USER.random(),
    "Python, of the system": lambda: OF_SYSTEM.random(),
    "Python, imported by name": lambda: uniform_by_name(),
    "numpy": lambda: NUMPY.random(),
    "numpy, an array": lambda: NUMPY.random(1)[0],
    "numpy, RandomState": lambda: LEGACY.rand(),
    "numpy, imported by name": lambda: legacy_by_name(),
    "numpy, a default argument": by_default,
    "numpy, a closure": of_closure(),
    "torch": lambda: torch.rand(1, generator=TORCH).item(),
    "an attribute": Keeper().draw,
    "a child": lambda: NUMPY.spawn(1)[0].random(),
    "a seed that is drawn": lambda: random.Random(PYTHON.getrandbits(64)).random(),
    "a seed that is drawn, as an int": lambda: random.Random(int(NUMPY.integers(2**62))).random(),
    "a seed of torch, as an int": lambda: random.Random(int(torch.randint(2**62, (1,)))).random(),
    "a seed of numpy that is drawn": lambda: np.random.default_rng(NUMPY.integers(2**31)).random(),
}


@pytest.mark.parametrize("name", MADE_BEFORE)
def test_generators_made_before_the_call_are_traced(name):
    assert call_law(lambda: MADE_BEFORE[name]() < 0.3, bool) == pytest.approx({True: 0.3, False: 0.7})


CHOICES = {
    "choice": lambda: PYTHON.choice([0, 1, 2]),
    "randrange": lambda: PYTHON.randrange(1, 7, 2) // 2,
    "randint": lambda: PYTHON.randint(0, 2),
    "shuffle": lambda: (PYTHON.shuffle(order := [0, 1, 2]), order[0])[1],
    "choices by name": lambda: choices_by_name([0, 1, 2])[0],
    "secrets": lambda: secrets.randbelow(3),
    "choice of secrets": lambda: secrets.choice([0, 1, 2]),
    "a method that was kept": PYTHON.choice,
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_of_generators_made_before(name):
    function = CHOICES[name]
    call = (lambda: function([0, 1, 2])) if name == "a method that was kept" else function
    assert call_law(call, int) == pytest.approx(dict.fromkeys(range(3), 1 / 3))


def rewound(generator):
    state = generator.getstate()
    first = generator.random()
    generator.setstate(state)
    return first, generator.random()


def rewound_numpy(generator):
    state = generator.bit_generator.state
    first = generator.random()
    generator.bit_generator.state = state
    return first, generator.random()


def rewound_torch(generator):
    state = generator.get_state()
    first = torch.rand(1, generator=generator)
    generator.set_state(state)
    return first.item(), torch.rand(1, generator=generator).item()


def of_two_torch(first, second):
    return [torch.rand(1, generator=one).item() for one in (first, second)]


def seeded_twice(seed, draw):
    pair = []
    for _ in range(2):
        seed(7)
        pair.append(draw())
    return pair


def later_in_step():
    """Numbers at the same place of two streams, behind others."""
    first, second = np.random.default_rng(8), np.random.default_rng(8)
    first.random(3), second.random(3)
    return first.random(), second.random()


def of_one_random_int():
    seed = int(NUMPY.integers(2**62))
    return random.Random(seed).random(), random.Random(seed).random()


def of_one_random_seed():
    seed = PYTHON.getrandbits(64)
    return np.random.default_rng(seed).random(), np.random.default_rng(seed).random()


IN_STEP = {
    "equal seeds": lambda: [random.Random(4).random() for _ in range(2)],
    "equal seeds of numpy": lambda: [np.random.default_rng(4).random() for _ in range(2)],
    "equal seeds of RandomState": lambda: [np.random.RandomState(4).rand() for _ in range(2)],
    "equal seeds of bits": lambda: [np.random.Generator(np.random.Philox(4)).random() for _ in range(2)],
    "equal seeds of torch": lambda: of_two_torch(*[torch.Generator().manual_seed(4) for _ in range(2)]),
    "no seeds of torch": lambda: of_two_torch(torch.Generator(), torch.Generator()),
    "initial seed": lambda: of_two_torch(
        TORCH.manual_seed(3), torch.Generator().manual_seed(TORCH.initial_seed())
    ),
    "cloned state": lambda: of_two_torch(one := torch.Generator(), one.clone_state()),
    "copy": lambda: [one.random() for one in (PYTHON, copy.copy(PYTHON))],
    "deep copy": lambda: [one.random() for one in (NUMPY, copy.deepcopy(NUMPY))],
    "pickled": lambda: [one.random() for one in (NUMPY, pickle.loads(pickle.dumps(NUMPY)))],
    "state of Python": lambda: rewound(PYTHON),
    "state of the module": lambda: rewound(random),
    "state of numpy": lambda: rewound_numpy(NUMPY),
    "state of torch": lambda: rewound_torch(torch.Generator().manual_seed(1)),
    "seeds of the module": lambda: seeded_twice(random.seed, random.random),
    "legacy seeds": lambda: seeded_twice(np.random.seed, np.random.rand),
    "default seeds of torch": lambda: seeded_twice(torch.manual_seed, lambda: torch.rand(1).item()),
    "one random seed": of_one_random_seed,
    "one random int": of_one_random_int,
    "later in the stream": later_in_step,
    "a formula": lambda: (random.Random(4).random(), 1 - np.exp(-random.Random(4).expovariate(1))),
}


@pytest.mark.parametrize("name", IN_STEP)
def test_generators_in_step_draw_the_same_number(name):
    law = call_law(lambda: tuple(bool(number < 0.3) for number in IN_STEP[name]()), tuple)
    assert law == pytest.approx({(True, True): 0.3, (False, False): 0.7})


APART = {
    "one generator": lambda: (PYTHON.random(), PYTHON.random()),
    "other seeds": lambda: [np.random.default_rng(seed).random() for seed in (4, 5)],
    "no seeds": lambda: [np.random.default_rng().random() for _ in range(2)],
    "children": lambda: [one.random() for one in np.random.default_rng(4).spawn(2)],
    "other libraries": lambda: (random.Random(4).random(), np.random.RandomState(4).rand()),
    "other places": lambda: [
        (one.random(), one.random())[n] for n, one in enumerate(map(random.Random, [4, 4]))
    ],
    "other seeds of torch": lambda: of_two_torch(*[torch.Generator().manual_seed(s) for s in (4, 5)]),
    "random ints": lambda: [random.Random(int(NUMPY.integers(2**62))).random() for _ in range(2)],
    "random seeds": lambda: [random.Random(PYTHON.getrandbits(64)).random() for _ in range(2)],
    "of the system": lambda: (OF_SYSTEM.random(), OF_SYSTEM.random()),
}


@pytest.mark.parametrize("name", APART)
def test_generators_that_differ_are_independent(name):
    law = call_law(lambda: tuple(bool(number < 0.5) for number in APART[name]()), tuple)
    assert law == pytest.approx({(a, b): 0.25 for a in (True, False) for b in (True, False)})


def one_then_two():
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    return first.random() < 0.5, second.random(2) < 0.5


def uniform_and_exponential():
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    return first.random() < 0.5, second.exponential() < 0.5


def one_of_few_seeds():
    return random.Random(PYTHON.randrange(10_000)).random() < 0.5


def uniform_then_choice():
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    return bool(first.random() < 0.3), int(second.choice(3, p=[0.2, 0.5, 0.3]))


@pytest.mark.parametrize("first_is_certain", [True, False])
def test_a_certain_choice_draws_nothing(first_is_certain):
    def function():
        first, second = random.Random(4), random.Random(4)
        certain = first.choices([0, 1], [1.0, 0.0]) if first_is_certain else None
        test = second.random() < 0.3
        return test, certain or first.choices([0, 1], [1.0, 0.0])

    assert call_law(function, lambda result: result[0]) == pytest.approx({True: 0.3, False: 0.7})


@pytest.mark.parametrize(
    "function", [one_then_two, uniform_and_exponential, uniform_then_choice, one_of_few_seeds]
)
def test_dependence_that_is_not_known_is_refused(function):
    with pytest.raises(CannotTraceError, match=r"at .*test_generators.*: .*"):
        enumerate_calls(function)


def test_generators_draw_as_always_afterwards():
    before = PYTHON.getstate()
    enumerate_calls(lambda: PYTHON.random() < 0.5)
    drawn = [PYTHON.random(), NUMPY.random(), LEGACY.rand(), OF_SYSTEM.random(), uniform_by_name()]
    assert all(type(number) is float and 0 <= number < 1 for number in drawn)
    PYTHON.setstate(before)
    assert "random" not in vars(random.Random)


def test_global_generators_are_traced_in_one_context_for_several_calls():
    with interception():
        for draw in (random.random, np.random.rand, lambda: torch.rand(1).item()):
            law = call_law(lambda draw=draw: bool(draw() < 0.25), bool)
            assert law == pytest.approx({True: 0.25, False: 0.75})


def test_functions_draw_as_always_between_calls_of_one_context():
    with interception():
        numbers = [PYTHON.random(), NUMPY.random(), LEGACY.rand(), np.zeros(1)[0]]
        assert all(type(number) in (float, np.float64) for number in numbers)


def test_a_sampled_call_shares_numbers_too():
    leaf = sample_call(
        lambda: [random.Random(4).random() < 0.3 for _ in range(3)], np.random.default_rng(0), 10.0
    )
    assert len(set(leaf.result)) == 1
    assert np.exp(leaf.log_chance) == pytest.approx(0.3 if leaf.result[0] else 0.7)


class DrawsByItself(random.Random):
    """A class of the user's with numbers of its own, which are no random numbers of ours."""

    def random(self):
        return 0.25


def test_a_class_with_numbers_of_its_own_keeps_them():
    assert call_law(lambda: DrawsByItself().uniform(0, 4), float) == {1.0: 1.0}


def drawn_after(made):
    """Return a function that draws a row with a generator that it seeds itself, and a token from that row."""

    def token():
        row = np.asarray(made(), dtype=float)
        return random.choices(range(3), list(row / row.sum()))[0]

    return token


ROWS_OF_OWN_SEEDS = {
    "numpy": lambda: np.random.default_rng([0, 7, 1]).random(3),
    "numpy, a distribution without a formula": lambda: np.random.default_rng(7).dirichlet(np.ones(3)),
    "Python": lambda: [(own := random.Random("0,7,1")).random(), own.gauss(0, 1) ** 2, own.random()],
    "torch": lambda: torch.rand(3, generator=torch.Generator().manual_seed(7)),
    "torch, normal": lambda: torch.randn(3, generator=torch.Generator().manual_seed(7)).exp(),
}


@pytest.mark.parametrize("made", ROWS_OF_OWN_SEEDS.values(), ids=ROWS_OF_OWN_SEEDS)
def test_rows_may_be_drawn_by_generators_that_the_code_seeds_itself(made):
    token, own = drawn_after(made), OwnSeeds()
    with own.watched(), pytest.raises((CannotTraceError, TypeError)):
        enumerate_calls(token)
    assert own.seen
    own.are_kept = True
    row = np.asarray(made(), dtype=float)
    with own.watched():
        assert call_law(token, int) == pytest.approx(dict(enumerate(row / row.sum())))


def test_seeds_of_requests_and_random_ones_are_no_own_seeds():
    def accepted():
        asked, other = np.random.default_rng(ASKED[0]), np.random.default_rng([0, ASKED[1]])
        drawn = np.random.default_rng(random.getrandbits(60))
        return [asked.random() < 0.25, other.random() < 0.25, drawn.random() < 0.25, random.random() < 0.25]

    own = OwnSeeds(are_kept=True)
    with own.watched():
        found = call_law(accepted, tuple)
    assert not own.seen
    assert found[True, True, True, True] == pytest.approx(0.25**4)
