"""``item`` hands a traced number to Python, which compares it, computes on it, and puts it back."""

import pytest

from tests.spec_oracle.exact.interception.support import call_law

torch = pytest.importorskip("torch")

WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


def compared():
    return torch.rand(3)[1].item() < 0.3


def reflected():
    return WEIGHTS[0].item() / 0.5 >= torch.rand((), dtype=torch.float64).item()


def compared_with_a_tensor():
    return bool(torch.tensor(0.7) > torch.rand(1).item())


def used_twice():
    u = torch.rand(1).item()
    return (u < 0.5) + (u < 0.25) + (2 * u < 0.2)


def put_back():
    rows = torch.zeros(2, 2, dtype=torch.float64)
    rows[1, 0] = torch.rand(1).item()
    return int((rows < 0.4).sum())


def race_at_two_rows():
    """Two races share their noise; only one of the winners is looked at, in Python."""
    noise = torch.empty(3, dtype=torch.float64).exponential_()
    output = torch.zeros(2, dtype=torch.int32)
    for row, weights in enumerate((WEIGHTS, WEIGHTS.flip(0))):
        output[row] = torch.argmax(weights / noise).item()
    return output[0].item()


def as_a_key():
    return {0: "a", 1: "b", 2: "c"}[torch.multinomial(WEIGHTS, 1).item()]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (compared, {True: 0.3, False: 0.7}),
        (reflected, {True: 0.4, False: 0.6}),
        (compared_with_a_tensor, {True: 0.7, False: 0.3}),
        (used_twice, {0: 0.5, 1: 0.25, 2: 0.15, 3: 0.1}),
        (put_back, {3: 0.6, 4: 0.4}),
        (race_at_two_rows, {0: 0.2, 1: 0.5, 2: 0.3}),
        (as_a_key, {"a": 0.2, "b": 0.5, "c": 0.3}),
    ],
)
def test_items_are_traced(function, expected):
    assert call_law(function, lambda result: result) == pytest.approx(expected, abs=1e-7)


def test_more_than_one_element_is_torchs_own_error():
    with pytest.raises(RuntimeError, match="more than 1|2 elements|Scalar"):
        call_law(lambda: torch.rand(2).item(), lambda result: result)


def test_a_draw_that_the_script_decides_next_is_a_number_at_once():
    """What moves it about before it is used need not be traced; one that is decided later stays open."""
    from spec_oracle.exact.interception.libraries.torch_boxes import boxed_positions

    seen = []

    def decided_last_to_first():
        first, second = torch.multinomial(WEIGHTS, 1), torch.multinomial(WEIGHTS.flip(0), 1)
        with torch._C.DisableTorchFunction():
            seen.append((boxed_positions(first) is None, boxed_positions(second) is None))
        return int(second), int(first)

    law = call_law(decided_last_to_first, tuple)
    chances = WEIGHTS.tolist()
    assert law == pytest.approx({(2 - b, a): chances[a] * chances[b] for a in range(3) for b in range(3)})
    # The second is decided first, so that the script says what it is as soon as it is drawn.
    assert seen == [(False, False), *[(False, True)] * 8]
