"""The conversions that adapters share."""

import pytest

torch = pytest.importorskip("torch")

from spec_oracle.contracts import ContractError  # noqa: E402
from spec_oracle.contracts.adapting import (  # noqa: E402
    drawing_from,
    fresh_seed,
    fresh_seeds,
    from_accepted,
    from_lengths,
    from_padded,
    logits_of,
    sample_bonus,
)


def test_from_padded_reads_the_accepted_length_off_the_padding():
    tokens, accepted = from_padded(torch.tensor([[2, 0, 1], [1, -1, -1], [0, 2, -1]], dtype=torch.int32))
    assert tokens.dtype == torch.int64
    assert accepted.tolist() == [2, 0, 1]


def test_an_emission_is_prefix_then_token_then_padding():
    drafts = torch.tensor([[1, 2], [1, 2], [1, 2]])
    tokens, accepted = from_accepted(
        drafts, torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([7, 8, 9])
    )
    assert tokens.tolist() == [[7, -1, -1], [1, 8, -1], [1, 2, 9]]
    assert accepted.tolist() == [0, 1, 2]


def test_from_lengths_names_the_function_for_a_next_token_alone():
    with pytest.raises(ContractError, match=r"got an array of shape \[2\]; from_accepted takes"):
        from_lengths(torch.tensor([1, 4]), torch.tensor([0, 2]))


def test_from_lengths_pads_after_the_emission():
    tokens, accepted = from_lengths(torch.tensor([[1, 2, 3], [4, 5, 6]]).int(), torch.tensor([0, 2]).int())
    assert tokens.tolist() == [[1, -1, -1], [4, 5, 6]]
    assert accepted.tolist() == [0, 2]


def test_logits_of_zero_mass_are_minus_infinity():
    logits = logits_of(torch.tensor([0.5, 0.5, 0.0]))
    assert logits[2] == -torch.inf
    assert logits.softmax(-1).tolist() == pytest.approx([0.5, 0.5, 0.0])


def test_the_bonus_comes_from_its_row():
    rows = torch.tensor([[0, 0, 1.0], [0, 1.0, 0]])
    assert sample_bonus(rows).tolist() == [[2], [1]]


def test_the_bonus_of_a_greedy_request_is_the_likeliest_token():
    rows = torch.tensor([[0.4, 0.6, 0]] * 64)
    drawn = sample_bonus(rows, torch.arange(64) % 2 == 0)[:, 0]
    assert set(drawn[::2].tolist()) == {1}
    assert set(drawn[1::2].tolist()) == {0, 1}


def test_drawing_from_a_generator_continues_it_and_leaves_the_global_stream_alone():
    generator = torch.Generator().manual_seed(5)
    expected = torch.rand(4, generator=torch.Generator().manual_seed(5))
    before = torch.get_rng_state()
    with drawing_from(generator):
        first = torch.rand(2)
    with drawing_from(generator):
        second = torch.rand(2)
    assert torch.equal(torch.cat([first, second]), expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_drawing_from_none_uses_the_global_stream():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with drawing_from(None):
        assert torch.equal(torch.rand(2), expected)


def test_fresh_seeds_of_many_requests_differ_and_repeat():
    once, again = (fresh_seeds(torch.Generator().manual_seed(5), 64) for _ in range(2))
    generator = torch.Generator().manual_seed(5)
    calls = [seed for _ in range(2) for seed in fresh_seeds(generator, 64)]
    assert once == again == calls[:64]
    assert len({*calls}) == 128


def test_fresh_seeds_differ():
    generator = torch.Generator().manual_seed(0)
    assert fresh_seed(generator) != fresh_seed(generator)
