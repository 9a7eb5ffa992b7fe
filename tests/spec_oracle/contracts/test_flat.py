"""A batch laid end to end: each request's rows, its bonus row, and the way back."""

import pytest

torch = pytest.importorskip("torch")

from spec_oracle.contracts.flat import flat  # noqa: E402  # after the check for torch

TOKENS = torch.tensor([[0, 1], [2, 0], [1, 2]])
DRAFT = torch.rand((3, 2, 3), generator=torch.Generator().manual_seed(0))
TARGET = torch.rand((3, 3, 3), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([2, 0, 1])


def test_a_request_has_as_many_rows_as_drafts_and_one_bonus_row():
    batch = flat(TOKENS, DRAFT, TARGET, LENGTHS)
    assert batch.tokens.tolist() == [0, 1, 1]
    assert batch.ends.tolist() == [2, 2, 3]
    assert batch.offsets.tolist() == [0, 2, 2, 3]
    assert batch.max_length == 2
    assert torch.equal(batch.draft_probs, torch.stack([DRAFT[0, 0], DRAFT[0, 1], DRAFT[2, 0]]))
    assert torch.equal(batch.target_probs, torch.stack([TARGET[0, 0], TARGET[0, 1], TARGET[2, 0]]))
    assert torch.equal(batch.bonus_probs, torch.stack([TARGET[0, 2], TARGET[1, 0], TARGET[2, 1]]))
    rows = [TARGET[0, 0], TARGET[0, 1], TARGET[0, 2], TARGET[1, 0], TARGET[2, 0], TARGET[2, 1]]
    assert torch.equal(batch.all_target_probs, torch.stack(rows))


def test_indices_point_at_the_rows_of_drafted_and_of_bonus_tokens():
    batch = flat(TOKENS, DRAFT, TARGET, LENGTHS)
    assert torch.equal(batch.all_target_probs[batch.target_indices], batch.target_probs)
    assert torch.equal(batch.all_target_probs[batch.bonus_indices], batch.bonus_probs)


def test_by_default_all_drafts_are_used_and_no_request_is_greedy():
    batch = flat(TOKENS, DRAFT, TARGET)
    assert batch.lengths.tolist() == [2, 2, 2]
    assert not batch.is_greedy.any()
    assert torch.equal(batch.all_target_probs, TARGET.reshape(9, 3))


def test_the_bonus_of_greedy_requests_is_the_likeliest_token():
    batch = flat(TOKENS, DRAFT, TARGET, LENGTHS, torch.tensor([True, True, True]))
    assert torch.equal(batch.sample_bonus()[:, 0], batch.bonus_probs.argmax(dim=1))


def test_output_as_wide_as_the_longest_draft_is_padded():
    tokens, accepted = flat(TOKENS, DRAFT, TARGET, torch.tensor([1, 0, 1])).from_padded(
        torch.tensor([[0, 2], [1, -1], [1, 0]], dtype=torch.int32)
    )
    assert tokens.tolist() == [[0, 2, -1], [1, -1, -1], [1, 0, -1]]
    assert accepted.tolist() == [1, 0, 1]


def test_counted_output_as_wide_as_the_longest_draft_is_padded():
    batch = flat(TOKENS, DRAFT, TARGET, torch.zeros(3, dtype=torch.int64))
    tokens, accepted = batch.from_lengths(torch.tensor([[0], [1], [2]]), torch.zeros(3))
    assert tokens.tolist() == [[0, -1, -1], [1, -1, -1], [2, -1, -1]]
    assert accepted.tolist() == [0, 0, 0]


def test_each_request_has_a_generator_of_its_own_which_differs_in_the_next_call():
    generator, batch = torch.Generator().manual_seed(0), flat(TOKENS, DRAFT, TARGET)
    calls = [batch.generators(generator) for _ in range(2)]
    assert [list(made) for made in calls] == [[0, 1, 2]] * 2
    assert len({torch.rand(1, generator=one).item() for made in calls for one in made.values()}) == 6


def test_requests_with_a_generator_draw_their_bonus_from_it_and_the_others_do_not():
    def own():
        return {request: torch.Generator().manual_seed(request) for request in (0, 2)}

    def bonus(generators, seed):
        torch.manual_seed(seed)
        batch = flat(TOKENS, DRAFT, TARGET, generators=generators)
        return batch.sample_bonus()[:, 0].tolist()

    drawn = [bonus(own(), seed) for seed in range(20)]
    assert {(one[0], one[2]) for one in drawn} == {(drawn[0][0], drawn[0][2])}
    assert len({one[1] for one in drawn}) > 1
    greedy = flat(TOKENS, DRAFT, TARGET, None, torch.tensor([True] * 3), generators=own())
    assert torch.equal(greedy.sample_bonus()[:, 0], TARGET[:, 2].argmax(dim=1))
    generators = own()
    assert flat(TOKENS, DRAFT, TARGET, generators=generators).generators(torch.Generator()) == generators
