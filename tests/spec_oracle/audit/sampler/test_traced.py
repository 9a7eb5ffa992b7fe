"""The law after one draft: tokens that are left open or stand for others, against all outcomes run."""

import numpy as np
import pytest
import torch
from scipy import stats

from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, SubjectVerdict, audit
from spec_oracle.audit.sampler import tracer as samplers
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.contracts import SamplerCode
from tests.strategies import at_night
from verifiers import Paths

VOCAB = 40


def drafts(seed=0, length=2):
    rng = np.random.default_rng(seed)
    q, p = (rng.dirichlet(np.ones(VOCAB), size=(1, 1, n)) for n in (length, length + 1))
    return Paths(rng.integers(VOCAB, size=(1, 1, length)), q, p)


def of_specimen(name):
    found = specimens()[name]
    return SamplerCode(found.function, found.array)


@pytest.mark.parametrize(
    ("name", "assumed"),
    [
        ("torch-multinomial-correction", False),
        ("torch-race-at-every-position", False),
        *at_night(("torch-race-with-shared-noise", False), ("torch-inverse-cdf-search", True)),
        ("token-rule", True),
        ("inverse-cdf", True),
        ("sample-and-match", True),
    ],
)
def test_few_runs_give_the_law_of_all(name, assumed, monkeypatch):
    monkeypatch.setattr(samplers, "EVERY_ID_NUMBERS", 0)
    code = of_specimen(name)
    in_full = law_after(code, drafts(), in_full=True)
    monkeypatch.setattr(samplers, "MOST_BRANCHES", 60)
    few = law_after(code, drafts())
    assert few.distance(in_full) < 1e-12
    assert (few.assumed > 0) == assumed


def emitting(draw):
    """Return code that accepts nothing and emits what is drawn from the target's row."""

    def verify(x, q, p, generator):
        tokens = np.full((len(x), x.shape[1] + 1), -1)
        tokens[:, 0] = [draw(row, generator) for row in p[:, 0]]
        return tokens, np.zeros(len(x), dtype=int)

    return SamplerCode(verify)


def coin_from_a_choice(row, rng):
    return int(rng.choice(VOCAB, p=row) % 2)


def coin_from_integers(row, rng):
    return int(rng.integers(VOCAB) < 10)


def choice_twice(row, rng):
    return int(max(rng.choice(VOCAB, p=row), rng.choice(VOCAB, p=row)))


@pytest.mark.parametrize("draw", [coin_from_a_choice, coin_from_integers, choice_twice])
def test_numbers_that_are_no_tokens_are_run_in_full(draw):
    found = law_after(emitting(draw), drafts())
    assert found.assumed == 0
    assert found.distance(law_after(emitting(draw), drafts(), in_full=True)) < 1e-12


def test_an_open_token_that_is_emitted_twice_is_decided():
    def verify(x, q, p, generator):
        token = torch.multinomial(p[:, 0], 1, generator=generator)
        return torch.cat([token, token, torch.full_like(token, -1)], dim=1), torch.ones(1, dtype=torch.int64)

    law = law_after(SamplerCode(verify, "torch"), drafts())
    assert all(prefix[0] == masses.argmax() for prefix, masses in law.leaves.items())
    assert len(law.leaves) == VOCAB


@pytest.mark.parametrize("method", ["random", "standard_exponential", "standard_normal"])
def test_a_buffer_made_while_it_was_followed_is_filled_by_numpy_later(method):
    """It holds objects: numpy would write numbers over them, and the interpreter would crash."""
    buffers, is_followed = [], [True]

    def verify(x, q, p, generator):
        if not buffers:
            buffers.append(np.empty(1))
        if method != "standard_normal" or not is_followed:  # whose law is not followed
            getattr(generator, method)(out=buffers[0])
        return np.array([[0, -1, -1]]), np.zeros(1, dtype=np.int64)

    code = SamplerCode(verify)
    law_after(code, drafts())
    with pytest.raises(TypeError, match="float64"):
        getattr(np.random.default_rng(0), method)(out=buffers[0])
    is_followed.clear()
    code(drafts(), code.generator(0))
    assert buffers[0].tolist() == [getattr(code.generator(0), method)()]


def kept_numbers(count, draw):
    """Return random numbers that a function kept of a run in which it was followed."""
    kept = []

    def verify(x, q, p, generator):
        kept[:] = [draw(generator) for _ in range(count)]
        return np.array([[0, -1, -1]]), np.zeros(1, dtype=np.int64)

    law_after(SamplerCode(verify), drafts())
    return kept


@pytest.mark.parametrize(
    ("draw", "chance"),
    [
        (lambda generator: generator.random(), 0.3),
        (lambda generator: generator.exponential(), 1 - np.exp(-0.3)),
        (lambda _: torch.multinomial(torch.tensor([0.1, 0.9]), 1).item(), 0.1),
    ],
)
def test_numbers_kept_of_a_run_are_drawn_when_it_is_over(draw, chance):
    """Compared, or asked for their value; the chance of a false alarm is 1e-9 each."""
    least, most = stats.binom.interval(1 - 1e-9, 1000, chance)
    assert least <= sum(bool(number < 0.3) for number in kept_numbers(1000, draw)) <= most
    numbers = kept_numbers(1000, draw)
    values = [float(number) for number in numbers]
    assert least <= sum(value < 0.3 for value in values) <= most
    assert values == pytest.approx([float(number) for number in numbers])


def test_a_kept_number_that_cannot_be_drawn_is_an_error_of_the_code():
    first, second = kept_numbers(2, lambda generator: generator.random())
    with pytest.raises(TypeError, match="two random numbers are added"):
        first + second


def test_right_code_that_draws_for_its_next_call_is_lossless():
    kept = {}

    def verify(x, q, p, generator):
        drawn = np.full((len(x), x.shape[1] + 1), -1)
        accepted = np.zeros(len(x), dtype=np.int64)
        for b, row in enumerate(x):
            for i, token in enumerate(row):
                if not kept.setdefault("next", generator.random()) < p[b, i, token] / q[b, i, token]:
                    rest = np.maximum(p[b, i] - q[b, i], 0)
                    break
                kept["next"] = generator.random()
                drawn[b, i] = token
            else:
                i, rest = x.shape[1], p[b, -1]
            kept["next"] = generator.random()
            drawn[b, i], accepted[b] = generator.choice(len(rest), p=rest / rest.sum()), i
        return drawn, accepted

    (report,) = audit(verify, options=AuditOptions(budget=10, checks=())).subjects
    assert report.verdict is SubjectVerdict.LOSSLESS
