"""Loading one file of a package with stand-ins for the rest."""

import sys
from pathlib import Path

import pytest

from spec_oracle.errors import EngineError
from spec_oracle.third_party.samplers.wheels import load_alone

MAIN = """
from __future__ import annotations

import json
import bigengine.settings as settings
from bigengine.base import Base, Generic
from bigengine.logger import make_logger
from ..sibling import DOUBLE
from somethingelse.deep.down import helper

logger = make_logger(__name__)

class Sampler(Base, Generic[int]):
    def run(self, x: settings.Kind | None):
        return x * DOUBLE

    def broken(self):
        return helper(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bigengine" / "layers").mkdir(parents=True)
    (tmp_path / "bigengine" / "layers" / "main.py").write_text(MAIN)
    (tmp_path / "bigengine" / "sibling.py").write_text("DOUBLE = 2\n")
    return tmp_path


def load(folder: Path):
    given = {"bigengine.logger": {"make_logger": lambda name: name}, "somethingelse": {}}
    return load_alone("bigengine.layers.main", folder, given)


def test_files_of_the_folder_are_real_and_given_names_are_used(folder):
    module = load(folder)
    assert module.Sampler.run(object(), 21) == 42
    assert module.logger == "bigengine.layers.main"


def test_a_missing_piece_refuses_to_be_called_and_says_which_it_is(folder):
    module = load(folder)
    with pytest.raises(EngineError, match=r"somethingelse\.deep\.down\.helper was called"):
        module.Sampler.broken(None)


def test_given_names_win_over_a_file(folder):
    module = load_alone(
        "bigengine.layers.main",
        folder,
        {"bigengine.logger": {"make_logger": str}, "bigengine.sibling": {"DOUBLE": 3}, "somethingelse": {}},
    )
    assert module.Sampler.run(None, 1) == 3


def test_stand_ins_leave_no_modules_behind(folder):
    before, finders = dict(sys.modules), list(sys.meta_path)
    load(folder)
    assert {name for name in sys.modules if name.startswith(("bigengine", "somethingelse"))} == set()
    assert sys.meta_path == finders
    assert {name: sys.modules[name] for name in before} == before


def test_stand_ins_leave_no_modules_behind_after_a_failure(folder):
    (folder / "bigengine" / "layers" / "main.py").write_text("import bigengine.sibling\n1 / 0\n")
    finders = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError):
        load(folder)
    assert "bigengine" not in sys.modules
    assert "bigengine.sibling" not in sys.modules
    assert sys.meta_path == finders


def test_an_installed_package_of_the_same_name_is_back_afterwards(folder, monkeypatch):
    installed = type(sys)("bigengine")
    monkeypatch.setitem(sys.modules, "bigengine", installed)
    assert load(folder).Sampler.run(None, 1) == 2
    assert sys.modules["bigengine"] is installed


def test_a_stand_in_has_no_dunder_names(folder):
    module = load_alone("bigengine.absent", folder, {})
    assert not hasattr(module, "__all__")
    assert isinstance(module.Anything, type)
