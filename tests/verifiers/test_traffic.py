"""How much verification reads and writes, by counting at torch's operators."""

import pytest

torch = pytest.importorskip("torch")

from lab.benchmarks.traffic import CACHE, VOCAB, Traffic, rules, traffic  # noqa: E402
from tests.strategies import by_day  # noqa: E402

FLAT = ("token", "block")
"""Rules of one path: the others take a second each."""

CASES = [(rule, dtype) for rule in rules() for dtype in ("float32", "bfloat16")]


@pytest.mark.parametrize(("rule", "dtype"), by_day(CASES, [case for case in CASES if case[0] in FLAT]))
def test_rows_are_read_hardly_more_than_once_and_none_of_float64_is_made(rule, dtype):
    """Look-ahead needs all rows of all paths normalised, which takes their sums first.

    A climb reads a row for each place, and those of the node where it ends once more for each sibling.
    """
    counted, least = traffic(rule, getattr(torch, dtype))
    most = {"token": 0.2, "block": 1.1, "lookahead_multipath_block": 2.1, "traversal": 1.04, "univer": 1.04}
    assert not counted.wide
    assert counted.read <= most.get(rule, 1) * least


@pytest.mark.parametrize(
    ("rule", "dtype", "by_operators"),
    [
        ("token", torch.float32, 1),
        ("token", torch.bfloat16, 2),
        ("block", torch.float32, 3.8),
        ("block", torch.bfloat16, 6.8),
    ],
)
def test_token_and_block_take_hardly_more_than_the_rows_from_memory(rule, dtype, by_operators):
    """Operators move more: an array of V numbers between rows and their sum, in float32 whatever the rows."""
    counted, least = traffic(rule, dtype)
    assert counted.missed <= 1.1 * least
    assert counted.moved <= by_operators * least


def test_traffic_counts_are_exact():
    rows = torch.ones(2, VOCAB)
    with Traffic(rows) as counted:
        rows[1].sum()
        assert (counted.read, counted.moved, counted.wide) == (4 * VOCAB, 4 * VOCAB + 4, set())
        rows[0].sum(dtype=torch.float64)
        assert counted.wide == {"aten.sum.default"}
        rows[torch.tensor([1])].neg()
    assert counted.read == 3 * 4 * VOCAB


def test_a_cache_holds_recent_rows_and_writes_back_live_ones():
    small, large = torch.ones(CACHE // 8), torch.ones(CACHE // 4 + 1)
    with Traffic(small[None]) as counted:
        small.sum()
        small.neg_().sum()
        assert counted.missed == small.nbytes
        large.sum()
        assert counted.missed == 2 * small.nbytes + large.nbytes
        made = large.neg()
        assert counted.missed == 2 * small.nbytes + 3 * large.nbytes
        small.neg()
        small.neg()
        assert counted.missed == 3 * small.nbytes + 3 * large.nbytes
    assert made.shape == large.shape
