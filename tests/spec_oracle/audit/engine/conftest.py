"""Audits of engines count work: whether their budgets suffice does not depend on the machine."""

import pytest


@pytest.fixture(autouse=True)
def amounts_of_work(work_clock):
    """Let seconds of budgets be amounts of work."""
