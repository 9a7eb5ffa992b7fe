"""Where a sampler keeps its generator: right and wrong, all are traced."""

import random

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.subjects import of_function
from spec_oracle.audit.suite import result_of
from tests.spec_oracle.exact.interception.support import distance

OF_NUMPY, OF_PYTHON = np.random.default_rng(), random.Random()


def rows_of(draft_tokens, verified):
    """Pad what is emitted for each request."""
    emitted = [verified(b) for b in range(len(draft_tokens))]
    width = draft_tokens.shape[1] + 1
    tokens = np.array([[*row, *[-1] * (width - len(row))] for row in emitted])
    return tokens, np.array([len(row) - 1 for row in emitted])


def token_rule(x, q, p, accept, choose):
    """Verify one request; ``accept()`` is a uniform, ``choose(weights)`` an index."""
    for i, token in enumerate(x):
        if not accept() * q[i, token] < p[i, token]:
            return [*x[:i], choose(np.maximum(p[i] - q[i], 0))]
    return [*x, choose(p[len(x)])]


def of_numpy(rng):
    return lambda weights: int(rng.choice(len(weights), p=weights / weights.sum()))


def of_python(rng):
    return lambda weights: rng.choices(range(len(weights)), weights.tolist())[0]


def at_import(x, q, p, generator):
    return rows_of(x, lambda b: token_rule(x[b], q[b], p[b], OF_NUMPY.random, of_numpy(OF_NUMPY)))


def python_at_import(x, q, p, generator):
    return rows_of(x, lambda b: token_rule(x[b], q[b], p[b], OF_PYTHON.random, of_python(OF_PYTHON)))


def by_default(x, q, p, generator, own=np.random.RandomState()):  # noqa: B008  (made once)
    return rows_of(x, lambda b: token_rule(x[b], q[b], p[b], own.random_sample, of_numpy(own)))


def of_two_seeds(x, q, p, generator):
    """Each request has generators of its own, one for tests and one for tokens."""

    def verified(b):
        seeds = random.getrandbits(64), random.getrandbits(64)
        tests, tokens = map(random.Random, seeds)
        return token_rule(x[b], q[b], p[b], tests.random, of_python(tokens))

    return rows_of(x, verified)


@pytest.mark.parametrize("sampler", [at_import, python_at_import, by_default, of_two_seeds])
def test_right_samplers_are_traced_wherever_their_generator_is(sampler):
    assert distance(sampler, 0) < 1e-12


def always_accepts(x, q, p, generator):
    return rows_of(
        x, lambda b: token_rule(x[b], q[b], p[b], lambda: 0.0 * OF_NUMPY.random(), of_numpy(OF_NUMPY))
    )


def test_a_wrong_sampler_is_traced_as_wrong():
    assert distance(always_accepts, 0) > 0.005


def noise_of(own_of_all):
    """Return the token rule whose requests draw from their own generators: accept tests, and maybe noise."""

    def verify(x, q, p, generator, generators=None):
        noise = generator.exponential(size=(len(x), p.shape[2]))

        def verified(b):
            own = (generators or {}).get(b, generator)
            mine = own.exponential(size=p.shape[2]) if own_of_all and own is not generator else noise[b]
            return token_rule(x[b], q[b], p[b], own.random, lambda weights: int((weights / mine).argmax()))

        return rows_of(x, verified)

    return verify


@pytest.mark.parametrize("own_of_all", [True, False], ids=["of all its noise", "of its accept tests only"])
def test_a_request_with_a_generator_of_its_own_ignores_the_shared_one(own_of_all):
    found = result_of(
        "streams", of_function("mine", noise_of(own_of_all), array="numpy", num_paths=None), Context()
    )
    assert found.status is (Status.PASSED if own_of_all else Status.FAILED)
    assert own_of_all or "another shared generator, request" in found.detail


def test_a_function_that_ignores_its_generator_is_told_how_to_accept_that():
    """Its distribution is right; the same seed gives another result, which the user may not need."""
    found = result_of(
        "streams", of_function("mine:verify", at_import, array="numpy", num_paths=None), Context()
    )
    do = found.remarks.do
    assert found.status is Status.FAILED
    assert do.startswith("take all random numbers from the generator that is passed; or, if no caller ")
    assert 'expected-failures = [{subject = "mine:verify", check = "streams", ' in do
    assert not result_of(
        "streams", of_function("mine", by_contract, array="numpy", num_paths=None), Context()
    ).remarks.do


def by_contract(x, q, p, generator):
    return rows_of(x, lambda b: token_rule(x[b], q[b], p[b], generator.random, of_numpy(generator)))
