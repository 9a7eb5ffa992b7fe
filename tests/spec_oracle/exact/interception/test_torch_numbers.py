"""Random numbers of torch on their ways out of tensors and back, in order, and in threads.

`COINS` are functions of p that land on True with probability p, each through another operation.
"""
# ruff: noqa: PLW0108  (a draw must wait for its run)

import math

import numpy as np
import pytest

from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.interception import CannotTraceError, draws, enumerate_calls, sources
from tests.spec_oracle.exact.interception.support import call_law
from verifiers import Paths

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402  # after the check for torch

WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


def uniforms(*shape):
    return torch.rand(*shape or (1,), dtype=torch.float64)


def race():
    return WEIGHTS / torch.empty(3, dtype=torch.float64).exponential_()


def with_generator(p):
    generator = torch.Generator().manual_seed(7)
    state = generator.get_state()
    assert (generator.device.type, generator.initial_seed()) == ("cpu", 7)
    u = torch.rand(1, generator=generator, dtype=torch.float64)
    return u < p and not torch.equal(state, generator.get_state())


def attention(p):
    """Without dropout, attention draws nothing, although torch tags it as random."""
    rows = torch.ones(1, 1, 2, 4)
    return functional.scaled_dot_product_attention(rows, rows, rows).sum() == 8 and uniforms() < p


COINS = {
    "generator": with_generator,
    "out=": lambda p: torch.rand(3, out=torch.empty(3, dtype=torch.float64))[1] < p,
    "seed": lambda p: torch.manual_seed(3) is not None and uniforms() < p,
    "format": lambda p: (u := uniforms(2))[0] < p and f"{u} {u[0]:.3f} {u!r} {u[0].item()}" != "",
    "float": lambda p: float(uniforms()) < p,
    "float of an item": lambda p: float(uniforms()[0].item()) < p,
    "isinstance": lambda p: isinstance(u := uniforms().item(), float) and u < p,
    "int": lambda p: int(uniforms() / p) == 0,
    "bool": lambda p: bool(uniforms()) and uniforms() < p,
    "conversion in place": lambda p: torch.zeros(3, dtype=torch.int64).copy_(uniforms() / p)[2] == 0,
    "conversion to bool": lambda p: uniforms().bool() and uniforms() < p,
    "list": lambda p: uniforms(3).tolist()[1] < p,
    "numpy": lambda p: uniforms(3).numpy()[1] < p,
    "asarray": lambda p: np.asarray(uniforms(3))[1] < p,
    "and back": lambda p: torch.as_tensor(uniforms(3).numpy())[1] < p,
    "from_numpy": lambda p: torch.from_numpy(uniforms(3).numpy() * 2)[1] < 2 * p,
    "tensor of items": lambda p: torch.tensor([uniforms().item(), 0.5], dtype=torch.float64)[0] < p,
    "nested tensor": lambda p: torch.tensor([[uniforms().item()], [0.5]]).double()[0, 0] < p,
    "division mode": lambda p: torch.div(uniforms(), p, rounding_mode="trunc") == 0,
    "ceil": lambda p: (uniforms() - p).ceil() == 0,
    "square": lambda p: uniforms().square() < p**2,
    "addcmul": lambda p: torch.addcmul(torch.ones(1), uniforms(), torch.tensor([2.0]), value=0.5) < 1 + p,
    "add alpha": lambda p: torch.add(torch.ones(1), uniforms(), alpha=2) < 1 + 2 * p,
    "randint": lambda p: torch.randint(2**63 - 1, (2,))[1] / (2**63 - 1) < p,
    "attention": attention,
}


@pytest.mark.parametrize("name", COINS)
@pytest.mark.parametrize("p", [0.3, 0.301])
def test_the_law_is_kept(name, p):
    law = call_law(lambda: bool(COINS[name](p)), lambda result: result)
    assert law == pytest.approx({True: p, False: 1 - p}, abs=1e-7)


TOKENS = {
    "topk": lambda: race().topk(1).indices[0],
    "topk of rows": lambda: race()[None].topk(2, dim=-1)[1][0, 0],
    "smallest": lambda: (1 / race()).topk(1, largest=False).indices[0],
    "sort": lambda: race().sort(descending=True).indices[0],
    "argsort": lambda: race().argsort(dim=0, descending=True)[0],
    "last": lambda: race().argsort()[-1],
    "stable": lambda: torch.sort(race(), stable=True)[1][2],
}


@pytest.mark.parametrize("name", TOKENS)
def test_every_way_to_draw_a_token(name):
    law = call_law(TOKENS[name], lambda result: int(result))
    assert law == pytest.approx({0: 0.2, 1: 0.5, 2: 0.3}, abs=1e-6)


def test_places_are_drawn_without_replacement():
    law = call_law(lambda: race().topk(2).indices, lambda result: tuple(result.tolist()))
    weights = WEIGHTS.tolist()
    assert law == pytest.approx(
        {(i, j): weights[i] * weights[j] / (1 - weights[i]) for i in range(3) for j in range(3) if i != j}
    )


def test_equal_numbers_keep_their_order():
    scores = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    law = call_law(
        lambda: (scores / torch.empty(4, dtype=torch.float64).exponential_()).sort(stable=True).indices,
        lambda result: tuple(result.tolist()),
    )
    assert law == {(0, 2, 3, 1): 1.0}


def written_after_numpy_saw_it(write):
    tensor = torch.zeros(2, dtype=torch.float64)
    seen = tensor.numpy()
    write(tensor)
    return seen[0] < 0.3


def in_the_memory_of_an_array():
    array = np.zeros(2)
    torch.from_numpy(array).uniform_()
    return array[0] < 0.3


REFUSED = {
    "uniform in low precision": lambda: torch.rand(1, dtype=torch.bfloat16) < 0.5,
    "multinomial of low precision": lambda: torch.multinomial(WEIGHTS.half(), 1),
    "conversion to low precision": lambda: torch.rand(1).to(torch.bfloat16) < 0.5,
    "product in low precision": lambda: torch.rand(1).item() * WEIGHTS.half()[:1] < 0.3,
    "values of topk": lambda: race().topk(1).values < 1,
    "seen by numpy": lambda: written_after_numpy_saw_it(lambda tensor: tensor.uniform_()),
    "copied where numpy sees it": lambda: written_after_numpy_saw_it(
        lambda tensor: tensor.copy_(uniforms(2))
    ),
    "memory of an array": in_the_memory_of_an_array,
    "random activation": lambda: functional.rrelu(-torch.ones(2), training=True) < -0.2,
    "soft sample": lambda: functional.gumbel_softmax(WEIGHTS.log())[0] < 0.5,
    "order": lambda: torch.randperm(3),
    "sorted first": lambda: torch.searchsorted(WEIGHTS, uniforms(), sorter=torch.tensor([0, 2, 1])),
    "remainder": lambda: uniforms() * 3 % 1 < 0.5,
    "round": lambda: uniforms().round() == 0,
    "sine": lambda: math.sin(uniforms().item()) < 0.5,
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_operations_are_refused(name):
    with pytest.raises(CannotTraceError, match="at .*test_torch_numbers"):
        enumerate_calls(REFUSED[name])


def test_numbers_may_be_written_where_numpy_sees_them():
    def function():
        return written_after_numpy_saw_it(lambda tensor: tensor.fill_(0.5)), uniforms() < 0.3

    assert call_law(lambda: tuple(map(bool, function())), lambda result: result) == pytest.approx(
        {(False, True): 0.3, (False, False): 0.7}
    )


def test_the_law_of_a_call_hands_over_a_generator():
    def verify(tokens, draft, target, generator):
        assert isinstance(generator, torch.Generator)
        assert generator.device.type == "cpu"
        extra = torch.multinomial(target[:, 0], 1, generator=generator)
        return torch.cat([extra, torch.full_like(tokens, -1)], dim=1), torch.zeros(1, dtype=torch.int64)

    rows = WEIGHTS.numpy()
    drafts = Paths(np.zeros((1, 1, 1), int), rows[None, None, None], np.stack([rows, rows])[None, None])
    law = law_after(SamplerCode(verify, "torch"), drafts)
    assert law.leaves[()] == pytest.approx([0.2, 0.5, 0.3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_memory_of_new_tensors_holds_nothing_of_old_ones(dtype):
    def used_again():
        for _ in range(20):
            torch.rand(16).to(dtype if dtype.is_floating_point else torch.float32)
            torch.randint(5, (16,))
        return [(torch.empty(16, dtype=dtype) == 0).all().item() for _ in range(20)]

    for _ in range(3):
        assert all(all(branch.result) for branch in enumerate_calls(used_again))


MANY = 200


def seeded(seed):
    return torch.rand(MANY, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_arrays_of_noise_from_equal_seeds_are_the_same_whichever_is_looked_at_first():
    def call():
        one, other, same = seeded(1), seeded(2), seeded(1)
        return bool(same[7] < 0.25), bool(one[7] < 0.25), bool(other[7] < 0.5)

    found = {branch.result: branch.weight for branch in enumerate_calls(call)}
    assert found == pytest.approx(
        {(True,) * 3: 0.125, (True, True, False): 0.125, (False, False, True): 0.375, (False,) * 3: 0.375}
    )


def test_noise_that_is_written_over_is_never_made(monkeypatch):
    """Engines fill an array for all requests, then the row of each request by its own generator."""
    made, draw = [], draws.Draw
    monkeypatch.setattr(sources, "Draw", lambda: made.append(1) or draw())
    weights = torch.ones(MANY, dtype=torch.float64)
    weights[3:] = 0.0

    def call():
        noise = torch.empty(2, MANY, dtype=torch.float64).exponential_()
        for row in noise:
            row.exponential_(generator=torch.Generator().manual_seed(5))
        first, second = (weights / row for row in noise)
        return int(first.argmax()), int(second.argmax())  # of equal noise, the same place

    found = {branch.result: branch.weight for branch in enumerate_calls(call)}
    assert found == pytest.approx({(place, place): 1 / 3 for place in range(3)})
    assert len(made) == 3 * (MANY + 2)  # a run makes one array, and a number to find the formula of each
