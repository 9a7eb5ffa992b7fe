"""Modules that have nothing to do with random numbers are left alone; all others are traced or refused."""

from typing import NamedTuple

import pytest

from spec_oracle.exact.interception import UnrepeatableError, enumerate_calls

torch = pytest.importorskip("torch")


def law_of(function):
    return sorted((round(branch.weight, 12), branch.result) for branch in enumerate_calls(function))


class Draws(torch.nn.Module):
    def forward(self, weights):
        return int(torch.multinomial(weights, 1))


class Compares(torch.nn.Module):
    def forward(self, noise, chance):
        return bool(noise["of"][0] < chance)


class Keeps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", torch.zeros(1))

    def forward(self, chance):
        return bool((self.noise < chance).all())


class Reads(torch.nn.Module):
    def forward(self, token):
        return torch.tensor([[0.5, 0.5], [0.1, 0.9]])[token]


class ReadsAndDraws(Reads):
    def forward(self, token):
        return torch.multinomial(super().forward(token), 1)


class DrawsLater(torch.nn.Module):
    calls = 0

    def forward(self):
        self.calls += 1
        return torch.rand(()) if self.calls > 1 else torch.zeros(())


def twice(call):
    """Call once in vain, so that the module is known to be quiet if it is."""

    def run():
        call()
        return call()

    return run


def test_a_module_that_draws_is_traced_every_time():
    module, weights = Draws(), torch.tensor([0.25, 0.75])
    outcomes = law_of(twice(lambda: module(weights)))
    assert len(outcomes) == 4
    assert sum(weight for weight, token in outcomes if token) == pytest.approx(0.75)


def test_a_quiet_module_is_traced_when_it_is_handed_noise():
    module = Compares()
    module({"of": [torch.zeros(())]}, 0.5)
    run = twice(lambda: module({"of": [torch.rand(())]}, 0.25))
    assert sum(branch.weight for branch in enumerate_calls(run) if branch.result) == pytest.approx(0.25)


def test_a_quiet_module_is_traced_when_it_holds_noise():
    module = Keeps()

    def run():
        module.noise.zero_()
        module(0.25)
        module.noise.uniform_()
        result = module(0.25)
        module.noise.zero_()
        return result

    assert law_of(run) == [(0.25, True), (0.75, False)]


@pytest.mark.parametrize("kind", [Reads, ReadsAndDraws])
def test_a_module_that_reads_a_token_is_ordinary_unless_it_draws(kind):
    module = kind()

    def run():
        row = module(torch.multinomial(torch.tensor([0.25, 0.75]), 1))
        return int(row if kind is ReadsAndDraws else torch.multinomial(row, 1))

    for _ in range(2):
        ones = [weight for weight, token in law_of(run) if token]
        assert sum(ones) == pytest.approx(0.25 * 0.5 + 0.75 * 0.9)
        assert len(ones) == 2


def test_a_module_that_draws_only_later_is_refused():
    module = DrawsLater()
    with pytest.raises(UnrepeatableError, match="not intercepted"):
        enumerate_calls(twice(lambda: float(module())))


class Place(NamedTuple):
    row: int
    token: int


def test_a_named_tuple_can_be_an_index():
    def run():
        row = torch.zeros(1, 2)
        row[Place(0, torch.multinomial(torch.tensor([0.25, 0.75]), 1).item())] = 1
        return int(row[Place(0, 1)])

    assert law_of(run) == [(0.25, 0), (0.75, 1)]


def test_tokens_in_a_list_can_be_an_index():
    def run():
        banned, row = torch.multinomial(torch.tensor([0.25, 0.75]), 1).tolist(), torch.zeros(1, 2)
        row[0, banned] = 1
        return int(row[0].argmax())

    assert law_of(run) == [(0.25, 0), (0.75, 1)]
