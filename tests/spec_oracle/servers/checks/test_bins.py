"""The tree: its cells are a partition of all texts, and their law is that of plain decoding."""

from itertools import product

import numpy as np
import pytest

from spec_oracle.contracts import ContractError
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.bins import IMPOSSIBLE, RARE, grow_tree
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.client.server import connect
from tests.spec_oracle.servers.client.stand_in import END, InProcess, StandIn

LENGTH = 3


def tree_of(*, smallest, sampling=None, vocab=4, ends=(END,), noise=0.0, **planted):
    stand_in = StandIn(vocab=vocab, **planted)
    server = connect(InProcess(stand_in), sampling or Sampling(), prompts=["[1, 2]", "[2, 1, 3]"])
    server.ends |= set(ends)
    reported = Distributions(server)
    reported.reading, reported.noise = "after sampling filters", noise
    return stand_in, server, grow_tree(reported, LENGTH, smallest, frozenset(server.ends))


@pytest.mark.parametrize("smallest", [1e-9, 0.01, 0.1])
@pytest.mark.parametrize("top_k", [0, 2])
def test_the_law_of_cells_is_that_of_the_model(smallest, top_k):
    stand_in, server, tree = tree_of(smallest=smallest, sampling=Sampling(top_k=top_k))
    law = np.zeros(len(tree.law))
    for number, prompt in enumerate(server.prompts):
        for tokens, mass in stand_in.texts(prompt, LENGTH, {"top_k": top_k}):
            law[tree.bin(number, tokens)] += mass / 2
    assert law == pytest.approx(tree.law, abs=1e-12)
    assert tree.law.sum() == pytest.approx(1)
    assert all(tree.law[i] >= smallest for i, leaf in enumerate(tree.leaves) if leaf != IMPOSSIBLE)
    assert np.all(tree.slack < 1e-3)


def test_a_fine_tree_has_a_bin_for_every_text():
    stand_in, server, tree = tree_of(smallest=1e-12)
    number = sum(len(list(stand_in.texts(prompt, LENGTH, {}))) for prompt in server.prompts)
    assert tree.is_whole.sum() == number
    assert RARE not in tree.leaves


def test_a_coarse_tree_asks_for_few_rows():
    _, server, _ = tree_of(smallest=0.2, vocab=8)
    assert server.client.stand_in.calls["/completion"] <= 2 + 2 * LENGTH / 0.2


def test_filtered_tokens_have_a_bin_of_probability_zero():
    _, _, tree = tree_of(smallest=1e-9, sampling=Sampling(top_k=2), vocab=8)
    assert tree.law[tree.leaves.index(IMPOSSIBLE)] == 0


def test_where_equal_requests_differ_no_token_is_ruled_out_by_a_filter():
    """Noise may let another token pass it: that is no proof."""
    _, _, tree = tree_of(smallest=1e-9, sampling=Sampling(top_k=2), vocab=8, noise=1e-3)
    assert IMPOSSIBLE not in tree.leaves
    assert tree.law.min() > 0


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ((1, 2, 3, 1), "4 tokens where at most 3"),
        ((1, END, 2), "goes on after token 0, which ends others"),
        ((1,), "stops after 1 of 3 tokens"),
        ((), "stops after 0 of 3 tokens"),
    ],
)
def test_completions_that_are_no_texts_are_refused(tokens, message):
    _, _, tree = tree_of(smallest=1e-6)
    with pytest.raises(ContractError, match=message):
        tree.bin(0, tokens)


@pytest.mark.parametrize("digits", [2, 3])
def test_rounded_log_probabilities_widen_the_slack_enough(digits):
    stand_in, server, tree = tree_of(smallest=0.01, shape="openai", digits=digits)
    law = np.zeros(len(tree.law))
    for number, prompt in enumerate(server.prompts):
        for tokens, mass in stand_in.texts(prompt, LENGTH, {}):
            law[tree.bin(number, tokens)] += mass / 2
    possible = tree.law > 0
    off = abs(np.log(law[possible] / tree.law[possible]))
    assert np.all(off <= tree.slack[possible] + 1e-12)
    assert off.max() > 1e-5


def test_every_text_has_a_cell():
    _, server, tree = tree_of(smallest=0.05)
    for number, tokens in product(range(2), product(range(1, 4), repeat=LENGTH)):
        assert 0 <= tree.bin(number, tokens) < len(tree.law)
    assert len(server.prompts) == 2
