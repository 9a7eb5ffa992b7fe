"""A request's verdict does not depend on its batch, on the array library, or on how deep the path is."""

from itertools import product

import numpy as np
import pytest
import torch

from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.exact.call import call_verifier, fresh_state
from spec_oracle.toy import Instance
from tests.strategies import at_night, by_day
from verifiers import Drafts, drafting_of, replayed_decisions


def verdicts(verifier, drafts, uniforms):
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    parts = (verdict.num_accepted, verdict.path, verdict.next_token)
    return np.stack([np.asarray(part) for part in parts], axis=1)


def some_drafts(verifier, batch, seed=0):
    instance = Instance.random(4, 3, num_paths=3, seed=seed, agreement=0.5)
    rng = np.random.default_rng(seed)
    return sampled_drafts(instance, batch, rng, drafting_of(verifier)), rng.random((batch, 64))


def rows(drafts, part):
    return Drafts(drafts.tokens[part], drafts.draft_probs[part], drafts.target_probs[part])


def in_torch(drafts):
    return Drafts(
        *(torch.from_numpy(array) for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs))
    )


@pytest.mark.parametrize("step", [199, *at_night(1)])
def test_requests_among_a_thousand_are_what_they_are_alone(served, step):
    drafts, uniforms = some_drafts(served, 1000)
    together = verdicts(served, drafts, uniforms)
    alone = [
        verdicts(served, rows(drafts, slice(b, b + 1)), uniforms[b : b + 1])[0]
        for b in range(0, drafts.batch, step)
    ]
    assert together[::step].tolist() == np.array(alone).tolist()
    assert len(np.unique(together, axis=0)) > 5


def test_torch_decides_as_numpy_does(served):
    drafts, uniforms = some_drafts(served, 2000, seed=1)
    expected = verdicts(served, drafts, uniforms)
    assert verdicts(served, in_torch(drafts), torch.from_numpy(uniforms)).tolist() == expected.tolist()


def test_inputs_are_not_changed(served):
    drafts, uniforms = some_drafts(served, 100)
    before = [array.copy() for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)]
    verdicts(served, drafts, uniforms)
    for old, new in zip(before, (drafts.tokens, drafts.draft_probs, drafts.target_probs), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("dtype", [torch.bfloat16, *at_night(torch.float32)])
def test_long_drafts_of_many_paths_stay_finite_in_low_precision(scalable, dtype):
    batch, paths, length, vocab = 16, 8, 16, 50
    rng = np.random.default_rng(7)
    target = torch.from_numpy(rng.dirichlet(np.full(vocab, 0.1), size=(batch, 1, length + 1))).to(dtype)
    draft = torch.from_numpy(rng.dirichlet(np.full(vocab, 0.1), size=(batch, 1, length))).to(dtype)
    tokens = torch.multinomial(draft.float().reshape(-1, vocab), paths, replacement=True)
    tokens = tokens.reshape(batch, length, paths).transpose(1, 2).contiguous()
    # Rows depend on the position only, so paths that share a prefix do share their rows.
    drafts = Drafts(tokens, draft.expand(-1, paths, -1, -1), target.expand(-1, paths, -1, -1))
    found = verdicts(scalable, drafts, torch.from_numpy(rng.random((batch, 400))))
    assert (found[:, 0] >= 0).all()
    assert (found[:, 0] <= length).all()
    assert ((found[:, 2] >= 0) & (found[:, 2] < vocab)).all()


BROKEN = [*product(["numpy", "torch"], ["draft_probs", "target_probs"], [np.nan, np.inf])]
"""Library, array and number; by day each of them with another one, and numbers that are none in torch."""
BY_DAY = (
    *(("numpy", "draft_probs", np.nan), ("numpy", "target_probs", np.inf)),
    ("torch", "target_probs", np.nan),  # where they spread
)


@pytest.mark.parametrize(
    ("library", "part", "broken"),
    by_day(BROKEN, BY_DAY),
)
def test_a_broken_row_is_the_matter_of_its_own_request(served, part, broken, library):
    drafts, uniforms = some_drafts(served, 60, seed=2)
    hurt = {field: getattr(drafts, field).copy() for field in ("tokens", "draft_probs", "target_probs")}
    for request, token in ((7, 0), (31, 3)):
        hurt[part][request, ..., token] = broken
    expected = verdicts(served, drafts, uniforms)
    with np.errstate(invalid="ignore", over="ignore"):
        if library == "torch":
            found = verdicts(served, in_torch(Drafts(**hurt)), torch.from_numpy(uniforms))
        else:
            found = verdicts(served, Drafts(**hurt), uniforms)
    others = np.setdiff1d(np.arange(60), [7, 31])
    assert found[others].tolist() == expected[others].tolist()
    assert ((found[:, 0] >= 0) & (found[:, 0] <= 3) & (found[:, 2] >= 0) & (found[:, 2] < 4)).all()


class Recording:
    """Decisions replayed from uniforms, and what was asked for, request by request."""

    def __init__(self, uniforms):
        self.source, self.asked = replayed_decisions(uniforms), []

    def bernoulli(self, probability):
        self.asked.append(probability)
        return self.source.bernoulli(probability)

    def categorical(self, weights):
        self.asked.append(weights)
        return self.source.categorical(weights)


def asked(verifier, drafts, uniforms):
    decisions = Recording(uniforms)
    call_verifier(verifier, drafts, decisions, fresh_state(verifier, drafts.batch))
    return decisions.asked


def test_chances_are_the_same_to_the_last_bit_alone_and_in_a_batch(served):
    drafts, uniforms = some_drafts(served, 60, seed=4)
    together = asked(served, drafts, uniforms)
    for b in range(0, drafts.batch, 9):
        part = slice(b, b + 1)
        for one, many in zip(asked(served, rows(drafts, part), uniforms[part]), together, strict=True):
            np.testing.assert_array_equal(one[0], many[b])
