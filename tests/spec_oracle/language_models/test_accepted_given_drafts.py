"""The expectation given the drafts, averaged over all drafts, is the enumerated block efficiency."""

import numpy as np
import pytest
import torch

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable, drafting_on
from spec_oracle.language_models.decoding import accepted_given_drafts, without_unused_tokens
from spec_oracle.toy import Instance
from verifiers import Paths, StatefulVerifier, drafting_of

STATELESS = [name for name in verifiers.names() if not isinstance(verifiers.get(name), StatefulVerifier)]


@pytest.mark.parametrize("name", STATELESS)
def test_the_mean_over_all_drafts_is_the_block_efficiency(name):
    verifier = verifiers.get(name)
    instance = Instance.random(3, 2, num_paths=2, seed=3)
    table = DraftTable(instance, drafting_on(instance, drafting_of(verifier)), arithmetic(array="torch"))
    paths = table.paths(np.arange(len(table.law.probability)))
    expected = accepted_given_drafts(verifier, paths, ())
    law = emission_law(verifier, instance)
    assert table.law.probability @ expected + 1 == pytest.approx(law.block_efficiency, abs=1e-12)


def test_tokens_without_mass_are_taken_out_and_the_others_keep_their_order():
    q = torch.tensor([[[[0, 0.25, 0, 0.75, 0]]], [[[0, 0, 0, 0, 1.0]]]])
    p = torch.tensor([[[[0, 0.5, 0, 0.5, 0]] * 2], [[[0.5, 0, 0, 0, 0.5]] * 2]])
    small, names = without_unused_tokens(Paths(torch.tensor([[[3]], [[4]]]), q, p))
    assert names.tolist() == [[1, 3], [0, 4]]
    assert small.tokens.tolist() == [[[1]], [[1]]]
    assert small.draft_probs[:, 0, 0].tolist() == [[0.25, 0.75], [0, 1]]
    assert small.target_probs[:, 0, 0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
