"""Random operators of torch, and everything that moves or computes on what they draw."""
# ruff: noqa: PLW0108  (a draw must wait for its run)

import math

import pytest

from tests.spec_oracle.exact.interception.support import call_law

torch = pytest.importorskip("torch")

WEIGHTS = torch.tensor([0.2, 0.5, 0.3, 0.0], dtype=torch.float64)
LIMITS = torch.tensor([0.5, 0.4], dtype=torch.float64)
LAW = {0: 0.2, 1: 0.5, 2: 0.3}


def law(function):
    def label(result):
        values = result.tolist()
        return tuple(values) if isinstance(values, list) else values

    return call_law(function, label)


def exponentials():
    return torch.empty(4, dtype=torch.float64).exponential_()


def uniforms():
    return torch.rand(4, dtype=torch.float64)


def one_uniform():
    return torch.rand(1, dtype=torch.float64)


DRAWS = {
    "exponential race": lambda: (WEIGHTS / exponentials()).argmax(),
    "in-place race": lambda: WEIGHTS.clone().div_(exponentials()).argmax(),
    "race to the minimum": lambda: (exponentials() / WEIGHTS).argmin(),
    "race through max": lambda: (WEIGHTS / exponentials()).max(dim=0).indices,
    "race of a power": lambda: uniforms().pow(1 / WEIGHTS).argmax(),
    "Gumbel of exponentials": lambda: (WEIGHTS.log() - exponentials().log()).argmax(),
    "Gumbel of uniforms": lambda: (WEIGHTS.log() - (-uniforms().log()).log()).argmax(),
    "Gumbel, clamped": lambda: (WEIGHTS.log() - (-uniforms().clamp(min=1e-20).log()).log()).argmax(),
    "Gumbel, scaled": lambda: ((WEIGHTS.log() - exponentials().log()) / 0.7).argmax(),
    "log of a ratio": lambda: (WEIGHTS / exponentials()).log().argmax(),
    "multinomial": lambda: torch.multinomial(WEIGHTS, 1)[0],
    "categorical": lambda: torch.distributions.Categorical(probs=WEIGHTS).sample(),
    "searchsorted": lambda: torch.searchsorted(WEIGHTS.cumsum(0), one_uniform(), right=True)[0],
    "argmax of a CDF": lambda: (WEIGHTS.cumsum(0) > one_uniform()).int().argmax(),
    "count in a CDF": lambda: (WEIGHTS.cumsum(0) <= one_uniform()).sum(),
    "complement": lambda: (WEIGHTS.cumsum(0) <= 1 - one_uniform()).sum(),
    "logarithms": lambda: (WEIGHTS.cumsum(0).log() < one_uniform().log()).sum(),
    "reciprocal": lambda: (1 / WEIGHTS.cumsum(0) > 1 / one_uniform()).sum(),
    "generator": lambda: torch.multinomial(WEIGHTS, 1, generator=torch.Generator())[0],
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_way_to_draw_a_token(name):
    assert law(DRAWS[name]) == pytest.approx(LAW, abs=1e-14)


@pytest.mark.parametrize("decreasing", [False, True])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_uniform_is_compared_with_a_whole_vocabulary_at_once(decreasing, is_left):
    """As one decision: more than 100,000 comparisons of a run are not traced."""
    reached = torch.cat([torch.full((100_000,), 0.3), torch.full((100_000,), 0.8), torch.ones(1)]).double()

    def count():
        number = 2 - 2 * one_uniform() if decreasing else 2 * one_uniform()
        return ((number >= 2 * reached) if is_left else (2 * reached <= number)).sum()

    assert law(count) == pytest.approx({0: 0.3, 100_000: 0.5, 200_000: 0.2})


def test_draws_with_integers():
    third = pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert law(lambda: torch.randint(3, (1,)).to(torch.int32)[0]) == third
    assert law(lambda: torch.randint(5, 8, (1,))[0] - 5) == third
    assert law(lambda: (one_uniform() * 3).long()[0]) == third


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [0.5, math.nan, 0.5], [-0.5, 1.0, 0.5]])
@pytest.mark.parametrize("replacement", [True, False])
def test_code_may_catch_the_error_of_weights_that_are_no_law(row, replacement):
    """As where no residual is left, and the target's row stands in for it."""

    def sampled():
        try:
            return torch.multinomial(torch.tensor(row), 1, replacement=replacement)
        except RuntimeError:
            return torch.multinomial(WEIGHTS, 1)

    assert call_law(sampled, int) == pytest.approx({0: 0.2, 1: 0.5, 2: 0.3})


def test_multinomial_without_replacement():
    expected = {(i, j): LAW[i] * LAW[j] / (1 - LAW[i]) for i in range(3) for j in range(3) if i != j}
    assert law(lambda: torch.multinomial(WEIGHTS, 2)) == pytest.approx(expected)


def test_multinomial_refuses_what_torch_refuses():
    with pytest.raises(RuntimeError, match="multinomial: all weights are zero"):
        law(lambda: torch.multinomial(torch.zeros(3), 1))


def test_one_draw_is_one_draw():
    def function():
        u = torch.rand(2, 1, dtype=torch.float64).expand(2, 3).t().reshape(-1)[:3]
        return torch.stack([u[0] < 0.5, 2 * u[2] < 0.5, u[0].float() < 0.75, u[1] < 0.5])

    outcomes = law(function)
    assert outcomes[True, True, True, True] == pytest.approx(0.125)
    assert (False, True, True, True) not in outcomes
    assert sum(chance for key, chance in outcomes.items() if key[0]) == pytest.approx(0.5)


def test_boxes_survive_moves_and_conversions():
    def function():
        u = torch.rand(3)
        buffer = torch.zeros(2, 3, dtype=torch.float64)
        buffer[1] = u
        moved = torch.cat([buffer.flip(0), buffer]).float().index_select(0, torch.tensor([3]))
        kept = torch.where(torch.tensor([True, False, True]), moved[0].double(), 1.0)
        return torch.stack([kept[0] < 0.5, u[0] < 0.5, kept[1] < 0.5, kept[2] == u[2]])

    assert law(function) == pytest.approx({(True, True, False, True): 0.5, (False, False, False, True): 0.5})


def test_views_share_memory():
    def function():
        noise = torch.ones(2, 2, dtype=torch.float64)
        noise[0].uniform_()
        noise.view(-1)[0].mul_(2)
        return noise[:, 0] < 1

    assert law(function) == pytest.approx({(True, False): 0.5, (False, False): 0.5})


def test_pending_integers_merge_through_masks():
    def function():
        noise = torch.empty(1, 4, dtype=torch.float64).exponential_()
        winners = (torch.stack([WEIGHTS, WEIGHTS.flip(0)]) / noise).argmax(dim=-1)
        chosen = torch.tensor([0, 1])
        return (winners * chosen).sum() + winners.mul(chosen.bool()).add(0).max() * 0

    assert law(function) == pytest.approx({3: 0.2, 2: 0.5, 1: 0.3})


def test_same_race_has_one_winner():
    def function():
        scores = WEIGHTS / exponentials()
        return torch.stack([scores.argmax(), scores.max(dim=0).indices])

    assert set(law(function)) == {(0, 0), (1, 1), (2, 2)}


def test_products_of_uniforms():
    outcomes = law(lambda: torch.rand(2, dtype=torch.float64).cumprod(0) < LIMITS)
    # P(u1 < a, u1 u2 < b) = b + b log(a / b) for b < a
    assert outcomes[True, True] == pytest.approx(0.4 + 0.4 * math.log(0.5 / 0.4), abs=1e-14)
    assert outcomes[True, False] == pytest.approx(0.1 - 0.4 * math.log(0.5 / 0.4), abs=1e-14)


def test_bernoulli_has_its_chances():
    assert law(lambda: torch.bernoulli(WEIGHTS[:2])) == pytest.approx(
        {(0.0, 0.0): 0.4, (0.0, 1.0): 0.4, (1.0, 0.0): 0.1, (1.0, 1.0): 0.1}
    )
    assert law(lambda: torch.zeros(1).bernoulli_(0.25)) == pytest.approx({(0.0,): 0.75, (1.0,): 0.25})


def test_python_control_flow_on_decisions():
    def function():
        count = 0
        while count < 4:
            if torch.rand(1, dtype=torch.float64) > 0.5:
                break
            count += 1
        return torch.tensor(count)

    assert law(function) == pytest.approx({0: 0.5, 1: 0.25, 2: 0.125, 3: 0.0625, 4: 0.0625})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_computed_nan_is_no_random_number(dtype):
    def call():
        torch.rand(1, dtype=dtype)
        nans = torch.log1p(torch.full((9,), -1.5, dtype=dtype))  # all bits one where it is vectorised
        return torch.where(nans.isnan(), 7, 0).sum()

    assert law(call) == {63: 1.0}


@pytest.mark.parametrize("inference", [False, True])
def test_tokens_and_uniforms_are_converted_in_inference_mode_too(inference):
    """Composite operators such as `to` arrive whole there."""

    def call():
        with torch.inference_mode(inference):
            race = torch.empty(1, 3).exponential_()
            token = torch.tensor([[0.2, 0.3, 0.5]]).div_(race).argmax(-1).view(-1).long().to(torch.int32)
            uniform = torch.rand(2, dtype=torch.float64).to(torch.float32)
            return token[0] if uniform[0] < 0.25 else torch.tensor(3)

    assert law(call) == pytest.approx({0: 0.05, 1: 0.075, 2: 0.125, 3: 0.75})
