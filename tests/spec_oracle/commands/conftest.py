"""A folder of a user, in which commands run."""

import pytest

from tests.subjects import forget_modules_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty working directory whose modules can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget_modules_of(tmp_path)
