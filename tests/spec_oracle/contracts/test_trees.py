"""The forms in which engines give draft trees."""

import numpy as np
import pytest

from spec_oracle.contracts import trees
from spec_oracle.errors import InvalidInputError
from verifiers import EMPTY, ROOT

PARENTS = np.array([[ROOT, ROOT, 0, 0, 3, EMPTY], [ROOT, 0, 1, 2, EMPTY, EMPTY]])
"""Two children, the first of which has two, the second of these one; and a chain of four."""
TOKENS = np.array([[5, 6, 7, 8, 9, -1], [1, 2, 3, 4, 0, 0]])


@pytest.fixture(params=["numpy", "torch"])
def given(request):
    if request.param == "numpy":
        return PARENTS, TOKENS
    torch = pytest.importorskip("torch")
    return torch.from_numpy(PARENTS), torch.from_numpy(TOKENS)


def test_links_of_nodes(given):
    parents, tokens = given
    assert trees.with_root(tokens).tolist() == [[0, 5, 6, 7, 8, 9, 0], [0, 1, 2, 3, 4, 0, 0]]
    assert trees.parents_with_root(parents).tolist()[0] == [-1, 0, 0, 1, 1, 4, -2]
    assert trees.first_child(parents).tolist() == [[1, 3, -1, -1, 5, -1, -1], [1, 2, 3, 4, -1, -1, -1]]
    assert trees.next_sibling(parents).tolist() == [[-1, 2, -1, 4, -1, -1, -1], [-1] * 7]
    assert trees.depths(parents).tolist() == [[0, 1, 1, 2, 2, 3, 0], [0, 1, 2, 3, 4, 0, 0]]


def test_a_node_attends_to_its_ancestors(given):
    mask = trees.ancestors(given[0])
    assert [np.flatnonzero(row).tolist() for row in np.asarray(mask)[0]] == [
        *([0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 1, 4, 5], [6])
    ]


def test_the_tokens_up_to_a_node_are_emitted(given):
    parents, tokens = given
    node = parents[:, 0] * 0 + 1
    emitted, accepted = trees.from_node(tokens, parents, node + 4 - node * 0, node * 11)
    assert emitted.tolist() == [[5, 8, 9, 11, -1, -1, -1], [11] + [-1] * 6]
    assert accepted.tolist() == [3, 0]
    emitted, accepted = trees.from_node(tokens, parents, node * 0, node * 11)
    assert emitted.tolist() == [[11] + [-1] * 6] * 2
    assert accepted.tolist() == [0, 0]


def test_a_place_of_the_contract_is_no_node(given):
    """Places begin at the root with -1, nodes with 0: who takes one for the other is told so."""
    parents, tokens = given
    root = parents[:, 0] * 0 - 1
    with pytest.raises(InvalidInputError, match="expected 0 for the root and i . 1 for place i"):
        trees.from_node(tokens, parents, root, root)
