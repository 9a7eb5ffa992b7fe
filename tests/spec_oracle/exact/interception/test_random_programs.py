"""Programs put together at random: where one can be traced, its samples have the traced distribution.

The steps are those of samplers: random numbers, tests against probabilities, indices, counts. A right trace
is called wrong with a probability of 1e-9 at most, by the e-value of 800 samples. Of eight outcomes they show
a total variation of 0.2 nearly always.
"""

import importlib
import math
import random
import re
from collections import Counter

import numpy as np
import pytest

from spec_oracle.exact.errors import NotTracedError
from spec_oracle.statistics import log_e_value
from tests.spec_oracle.exact.interception.support import call_law
from tests.strategies import at_night

PROGRAMS, STEPS, SAMPLES = 6, 6, 800

STEPS_OF_BOTH = """
numbers: 1 - {numbers} | {numbers} * 2 | {numbers} / 2 + 0.25 | -{numbers} | {numbers} - P | {numbers} / W
numbers: X.exp({numbers}) | X.clip({numbers}, 0.2, 0.8) | {numbers} ** 2 | abs({numbers} - 0.5)
numbers: X.maximum({numbers}, P) | X.floor({numbers} * 4) / 4 | {numbers}[[2, 0, 3, 1]] | X.roll({numbers}, 1)
numbers: X.where({truths}, {numbers}, {numbers}) | X.stack([{numbers}, {numbers}])[1]
truths: {numbers} < P | {numbers} >= 0.3 | 0.7 > {numbers} | {numbers} < {numbers} | ~{truths}
truths: {truths} & {truths} | {truths} ^ {truths}
index: {truths}.sum() | {numbers}.argmax() | int({truths}.all()) | IDS[{truths}].sum() | IDS[{index} % 4]
index: ({index} + {index}) % 4 | int({numbers}[{index} % 4] < P[{index} % 4])
index: X.where({truths}, IDS, 3 - IDS)[1]
index: X.argmax(W / {noise}) | X.argmin({noise} / W) | X.argmax(X.log(W) - X.log({noise}))
index: (X.cumsum(W, 0) <= {numbers}[1]).sum() % 4 | X.argsort({numbers})[2] | 1 if {numbers}[0] < 0.4 else 2
index: sum(1 for test in {truths} if test)
"""
STEPS_OF = {
    "numpy": """
numbers: rng.random(4) | rng.uniform(size=4) | {numbers}.copy() | X.array({numbers}.tolist())
noise: rng.exponential(size=4) | rng.standard_exponential(4) | -X.log(rng.random(4))
index: rng.choice(4, p=W) | rng.integers(4) | rng.multinomial(1, W).argmax() | X.cumprod({truths}).sum()
index: min(X.searchsorted(X.cumsum(W), {numbers}[1]), 3) | X.count_nonzero({truths}) | rng.binomial(1, 0.3)
""",
    "torch": """
numbers: X.rand(4, generator=rng, dtype=X.float64) | {numbers}.clone()
noise: X.empty(4, dtype=X.float64).exponential_(generator=rng) | -X.log(X.rand(4, generator=rng))
index: X.multinomial(W, 1, generator=rng)[0] | X.multinomial(W, 2, generator=rng)[1]
index: X.searchsorted(X.cumsum(W, 0), {numbers}[1]) % 4 | X.randint(0, 4, (1,), generator=rng)[0]
index: X.cumprod({truths}.int(), 0).sum() | (~{truths}).int().argmax()
""",
}
GENERATOR_OF = {
    "numpy": lambda seed: np.random.default_rng(seed),  # noqa: PLW0108  # replaced while a run is traced
    "torch": lambda seed: importlib.import_module("torch").Generator().manual_seed(seed),
}
ROWS = {"W": [0.1, 0.2, 0.3, 0.4], "P": [0.6, 0.2, 0.7, 0.5], "IDS": [0, 1, 2, 3]}


def written(library, seed):
    """Return the source of a function of a generator: some steps, and as its results up to two of them."""
    rng, steps = random.Random(f"{library} {seed}"), {}
    for line in (STEPS_OF[library] + STEPS_OF_BOTH).strip().splitlines():
        kind, _, texts = line.partition(": ")
        steps.setdefault(kind, []).extend(texts.split(" | "))
    named = {"numbers": ["v0"], "truths": ["v1"], "index": []}
    lines = [f"v0 = {steps['numbers'][0]}", "v1 = v0 < P"]

    def filled(text):
        return re.sub(r"\{(\w+)\}", lambda hole: rng.choice(named.get(hole[1]) or filled_one(hole[1])), text)

    def filled_one(kind):
        return [f"({filled(rng.choice([text for text in steps[kind] if '{index}' not in text]))})"]

    for number in range(2, STEPS + 2):
        kind = rng.choice(list(named))
        lines.append(f"v{number} = {filled(rng.choice(steps[kind]))}")
        named[kind].append(f"v{number}")
    results = named["truths"] + named["index"]
    lines.append(f"return {', '.join(rng.sample(results, min(2, len(results))))},")
    return "def program(rng):\n    " + "\n    ".join(lines)


def function_of(library, source):
    """Return the function of that source, with its library and its rows."""
    names = {"X": importlib.import_module(library)}
    array = names["X"].tensor if library == "torch" else np.array
    names |= {name: array(row) for name, row in ROWS.items()}
    if library == "torch":
        names |= {name: names[name].double() for name in ("W", "P")}
    exec(source, names)
    return names["program"]


def label(results):
    return tuple(np.asarray(result, dtype=int).tobytes() for result in results)


def log_e_of(law, program, rng):
    """Return the log e-value of samples of a program against a distribution."""
    counts = Counter(label(program(rng)) for _ in range(SAMPLES))
    outcomes = [*law, *(counts.keys() - law.keys())]
    masses = np.array([law.get(outcome, 0.0) for outcome in outcomes])
    return log_e_value([counts[outcome] for outcome in outcomes], masses / masses.sum())


@pytest.mark.parametrize(
    ("first", "branches"), [(0, 150), *at_night(*((n * PROGRAMS, 500) for n in range(40)))]
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_samples_of_a_program_have_its_traced_distribution(library, first, branches):
    generator, traced = GENERATOR_OF[library], 0
    for seed in range(first, first + PROGRAMS):
        program = function_of(library, source := written(library, seed))
        try:
            law = call_law(lambda program=program: program(generator(0)), label, max_branches=branches)
        except NotTracedError:
            continue
        traced += 1
        assert log_e_of(law, program, generator(seed)) < math.log(1e9), source
    assert traced > 0


def test_samples_of_another_program_do_not_have_it():
    law = call_law(lambda: np.random.default_rng(0).random(4) < ROWS["P"], lambda tests: label([tests]))
    other = function_of("numpy", "def program(rng):\n    return rng.random(4) < W,")
    assert log_e_of(law, other, np.random.default_rng(1)) > math.log(1e9)
