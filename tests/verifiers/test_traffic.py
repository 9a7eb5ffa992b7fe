"""How much verification reads and writes, by counting at torch's operators."""

import pytest

torch = pytest.importorskip("torch")

from benchmarks.traffic import VOCAB, Traffic, rules, traffic  # noqa: E402

both = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
PLANNED_IN_FLOAT64 = {
    "k_seq",
    "global_resolution",
    "balanced_multipath_block",
    "lookahead_multipath_block",
}
"""Rules that search or share out mass over the vocabulary; in less they would not be lossless to 1e-6."""


@both
@pytest.mark.parametrize("rule", rules())
def test_rows_are_read_hardly_more_than_once(rule, dtype):
    """What is between goes to memory too where it does not fit into the cache; compiled it is never there."""
    counted, least = traffic(rule, dtype)
    assert counted.read <= (1.25 if rule in ("token", "block") else 1.5) * least
    if rule in ("token", "block"):
        assert counted.moved <= {"token": 2, "block": 9}[rule] * least


@both
@pytest.mark.parametrize("rule", rules())
def test_rows_of_float64_are_made_only_to_plan(rule, dtype):
    counted, _ = traffic(rule, dtype)
    assert bool(counted.wide) == (rule in PLANNED_IN_FLOAT64)


def test_the_count_sees_what_it_should():
    rows = torch.ones(2, VOCAB)
    with Traffic(rows) as counted:
        rows[1].sum()
        assert (counted.read, counted.moved, counted.wide) == (4 * VOCAB, 4 * VOCAB + 4, set())
        rows[0].sum(dtype=torch.float64)
        assert counted.wide == {"aten.sum.default"}
        rows[torch.tensor([1])].neg()
    assert counted.read == 3 * 4 * VOCAB
