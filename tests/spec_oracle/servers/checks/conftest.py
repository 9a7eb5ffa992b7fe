"""How many requests tests of servers take where these are not what a test is about."""

import pytest

from tests.efforts import set_effort

COARSE = {"PAIRS": 200, "PAIRS_WANTED": 0.5, "ALIKE_WANTED": 0.4, "ALIKE_TV": 0.5, "SHAPES_TV": 0.6}
"""Sizes of defects, and pairs, that `streams`, `batch` and `shapes` plan for."""


@pytest.fixture
def few_requests(request, monkeypatch):
    """Plan for larger defects by day: for right servers, and for defects that are that large."""
    if request.node.get_closest_marker("nightly") is None:
        set_effort(monkeypatch, **{f"SERVER_{name}": value for name, value in COARSE.items()})


@pytest.fixture
def few_tokens(monkeypatch):
    """Pairs of tokens need detect a total variation of 0.2 only."""
    set_effort(monkeypatch, SERVER_DISTANCES_TV=0.2)
