"""What answers of servers say of drafts, and sampling that makes no sense."""

import pytest

from spec_oracle.contracts.completion import Completion, Sampling
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.contract import DraftCounts, impossible_counts


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p"])
def test_bad_sampling_is_named(name):
    with pytest.raises(InvalidInputError, match=name):
        Sampling(**{name: -1})


@pytest.mark.parametrize(
    ("tokens", "ended", "accepted", "words"),
    [
        ((1, 2, 3), False, 2, ""),
        ((1, 2), False, 4, "4 accepted of 3"),
        ((1, 2), False, 2, "first token cannot be a draft"),
        ((1, 2), True, 2, ""),
    ],
)
def test_impossible_counts_are_reported(tokens, ended, accepted, words):
    found = impossible_counts(Completion(tokens, ended=ended, drafted=3, accepted=accepted))
    assert words in found
    assert bool(found) is bool(words)


def test_counters_are_differences():
    assert DraftCounts(9, 4).since(DraftCounts(5, 1)) == DraftCounts(4, 3)
    assert DraftCounts(None, 1.5).since(DraftCounts(None, 0.0)) == DraftCounts(None, 1.5)
    assert DraftCounts(1, 1) + DraftCounts(None, 2) == DraftCounts(None, 3)
