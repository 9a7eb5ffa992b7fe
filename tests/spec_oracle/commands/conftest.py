"""A folder of a user, in which commands run."""

import sys

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty working directory whose modules can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(module)]:
        del sys.modules[name]
