"""Right samplers in unusual dress are traced, and their distribution is the target's, up to rounding."""

import random
from typing import NamedTuple

import numpy as np
import pytest

from spec_oracle.audit.instances import panel
from spec_oracle.audit.sampler.tracer import traced_law
from spec_oracle.contracts import SamplerCode

INSTANCES = [panel(3, 2, 1, 0)[name] for name in ("flat", "zeros")]


def by_request(sample, accept=None):
    """Return a token rule that decides request by request, and stops at the first rejection."""

    def verify(x, q, p, rng):
        found = []
        for drafted, draft, target in zip(x.tolist(), q, p, strict=True):
            emitted = []
            for token, of_draft, of_target in zip(drafted, draft, target, strict=False):
                if not (accept or usual)(of_target[token], of_draft[token], rng):
                    emitted.append(sample(np.maximum(of_target - of_draft, 0), rng))
                    break
                emitted.append(token)
            else:
                emitted.append(sample(target[-1], rng))
            found.append(emitted)
        return padded(found, x.shape[1])

    return verify


def usual(target, draft, rng):
    return rng.random() * draft < target


def padded(found, length):
    tokens = np.full((len(found), length + 1), -1)
    for request, emitted in enumerate(found):
        tokens[request, : len(emitted)] = emitted
    return tokens, np.array([len(emitted) - 1 for emitted in found])


def searched_from_the_left(row, rng):
    """A uniform on (0, 1] is searched for on the left."""
    ends = np.cumsum(row)
    return int(np.searchsorted(ends, (1 - rng.random()) * ends[-1], side="left"))


def searched_from_the_right(row, rng):
    ends = np.cumsum(row)
    return int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))


def with_an_epsilon(row, rng):
    """The residual is normalised with an epsilon, and then once more."""
    row = row / (row.sum() + 1e-12)
    return int(rng.choice(len(row), p=row / row.sum()))


def of_python(row, rng):
    return random.choices(range(len(row)), weights=row.tolist())[0]


class Result(NamedTuple):
    tokens: object
    num_accepted: object


def named(*arguments):
    """The result is a named tuple of lists, with the tokens in 32 bits."""
    tokens, accepted = by_request(searched_from_the_right)(*arguments)
    return Result(tokens.astype(np.int32).tolist(), accepted.tolist())


def by_gumbel_noise(x, q, p, rng):
    """All requests at once; the next token is the largest log probability with Gumbel noise."""
    batch, length = x.shape
    at = np.arange(batch)[:, None], np.arange(length)
    accepted = rng.random((batch, length)) * q[*at, x] < p[*at, x]
    count = np.cumprod(accepted, axis=1).sum(axis=1)
    rows = np.concatenate([np.maximum(p[:, :-1] - q, 0), p[:, -1:]], axis=1)[np.arange(batch), count]
    with np.errstate(divide="ignore"):
        following = (np.log(rows) + rng.gumbel(size=rows.shape)).argmax(axis=1)
    tokens = np.where(np.arange(length + 1) < count[:, None], np.pad(x, ((0, 0), (0, 1))), -1)
    tokens[np.arange(batch), count] = following
    return tokens, count


class Buffers:
    """The same buffers are returned by every call: what one returned is overwritten by the next."""

    def __init__(self, zeros):
        self.tokens, self.accepted = zeros((64, 8)), zeros((64,))

    def __call__(self, x, q, p, rng):
        tokens, accepted = self.verify(x, q, p, rng)
        batch, width = tokens.shape
        self.tokens[:batch, :width], self.accepted[:batch] = tokens, accepted
        return self.tokens[:batch, :width], self.accepted[:batch]

    def verify(self, *arguments):
        return by_request(searched_from_the_right)(*arguments)


class BuffersOfTorch(Buffers):
    def verify(self, x, q, p, generator):
        torch = pytest.importorskip("torch")
        at = x[..., None]
        accepted = torch.bernoulli((p[:, :-1].gather(-1, at) / q.gather(-1, at)).clamp(max=1)[..., 0])
        count = accepted.cumprod(dim=1).sum(dim=1).long()
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], dim=1)[torch.arange(len(x)), count]
        following = torch.multinomial(rows, 1, generator=generator)
        tokens = torch.nn.functional.pad(x, (0, 1)).where(torch.arange(x.shape[1] + 1) < count[:, None], -1)
        return tokens.scatter(1, count[:, None], following), count


def zeros_of_torch(shape):
    return pytest.importorskip("torch").zeros(shape, dtype=pytest.importorskip("torch").int64)


DRESS = {
    "left": by_request(searched_from_the_left),
    "epsilon": by_request(with_an_epsilon),
    "random": by_request(of_python, lambda target, draft, _: random.random() * draft < target),
    "named": named,
    "gumbel": by_gumbel_noise,
    "buffers": Buffers(lambda shape: np.zeros(shape, dtype=np.int64)),
}


@pytest.mark.parametrize("name", DRESS)
def test_right_code_is_right(name):
    for instance in INSTANCES:
        assert traced_law(SamplerCode(DRESS[name]), instance).total_variation < 1e-12


def test_right_code_on_tensors_is_right():
    for instance in INSTANCES:
        code = SamplerCode(BuffersOfTorch(zeros_of_torch), "torch")
        assert traced_law(code, instance).total_variation < 1e-12


def test_buffers_hide_no_defect():
    class Wrong(Buffers):
        def verify(self, *arguments):
            return by_request(searched_from_the_right, lambda *_: True)(*arguments)

    code = SamplerCode(Wrong(lambda shape: np.zeros(shape, dtype=np.int64)))
    assert traced_law(code, INSTANCES[0]).total_variation > 0.05
