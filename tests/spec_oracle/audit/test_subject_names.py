"""How subjects are named: an object of a module, of a file, and what a module has."""

import sys

import pytest

from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.subjects import (
    imported,
    named_verifier,
    parted,
    quickness,
    require_name,
    resolve_subject,
)
from spec_oracle.errors import InvalidInputError, SubjectRaisedError

CODE = """
import verifiers
from spec_oracle.contracts import as_sampler

TOKEN = as_sampler(verifiers.get("token"))

def verify(draft_tokens, draft_probs, target_probs, generator):
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)

def rule():
    return verifiers.get("block")

def softmax(rows):
    return rows

def _verify(draft_tokens, draft_probs, target_probs, generator):
    return None

class Engine:
    def next_token_probs(self, context):
        return [0.5, 0.5]

    def generate(self, prompt, max_new_tokens, seed=None):
        return [0]

    def verify(self, text, drafts, rows, row):
        return drafts

class Cache:
    def read(self):
        return None
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Return a folder of a user, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_lists_its_auditable_names(here):
    (here / "named_engine.py").write_text(CODE)
    with pytest.raises(InvalidInputError) as found:
        require_name("named_engine")
    names = "named_engine:verify or named_engine:rule or named_engine:Engine"
    assert str(found.value) == f"subject: 'named_engine' is a module: name an object in it, {names}"


@pytest.mark.parametrize(
    ("name", "ends"), [("verify", "tokens per call of a sampler$"), ("Engine", "decisions\\)$")]
)
def test_a_sampler_in_the_place_of_a_rule_is_sent_to_the_audit(here, name, ends):
    (here / "no_rule.py").write_text(CODE)
    with pytest.raises(InvalidInputError, match=ends):
        named_verifier(f"no_rule:{name}")


def test_an_engine_may_have_a_method_verify(here):
    (here / "engine_that_verifies.py").write_text(CODE)
    assert isinstance(resolve_subject("engine_that_verifies:Engine"), EngineSubject)


def test_a_package_lists_names_imported_from_its_modules(here):
    (here / "named_package").mkdir()
    (here / "named_package/__init__.py").write_text("import os\nfrom .code import verify as check\n")
    with pytest.raises(InvalidInputError, match="name an object in it, named_package:check$"):
        require_name("named_package")


def test_a_file_in_another_folder_is_named_by_its_path(here):
    folder = here / "deep/er"
    folder.mkdir(parents=True)
    (folder / "beside_it.py").write_text(CODE)
    (folder / "by_path.py").write_text("from beside_it import verify\nmine = verify\n")
    with pytest.raises(InvalidInputError, match="deep/er/beside_it.py:verify or deep/er/beside_it.py:rule"):
        require_name("deep/er/beside_it.py")
    require_name("deep/er/by_path.py:mine")
    assert resolve_subject("deep/er/by_path.py:mine").kind == "sampler"
    assert sys.modules["by_path"].__file__ == str(folder / "by_path.py")


def test_a_file_of_a_package_is_imported_as_part_of_it(here):
    folder = here / "src/named_pack/inner"
    folder.mkdir(parents=True)
    for file in (folder / "__init__.py", folder.parent / "__init__.py"):
        file.write_text("")
    (folder / "code.py").write_text(CODE)
    (folder.parent / "front.py").write_text("from .inner.code import verify\n")
    assert imported("src/named_pack/front.py:verify").__module__ == "named_pack.inner.code"


def test_a_file_that_does_not_exist_is_named():
    with pytest.raises(InvalidInputError, match=r"there is no file nowhere/mine.py"):
        require_name("nowhere/mine.py:verify")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a/b.py:pairs/greedy", ("a/b.py:pairs", "greedy")),
        ("a/b.py:pairs", ("a/b.py:pairs", "")),
        ("token", ("token", "")),
    ],
)
def test_an_engine_of_several_follows_the_object(name, parts):
    assert parted(name) == parts


@pytest.mark.parametrize(
    ("package", "hint"),
    [
        ("torch", "pip install 'spec-oracle[torch]'"),
        ("no_such_library", "is no_such_library installed where"),
    ],
)
def test_a_package_that_the_code_lacks_is_named_with_how_to_install_it(here, monkeypatch, package, hint):
    monkeypatch.setitem(sys.modules, package, None)
    (here / "needs_it.py").write_text(f"import {package}\n")
    with pytest.raises(SubjectRaisedError) as found:
        imported("needs_it:verify")
    assert hint in str(found.value)


def test_slow_subjects_are_begun_first():
    names = ["token", "k_seq", "block_transport", "my_module:verify"]
    assert sorted(names, key=quickness) == ["my_module:verify", "k_seq", "block_transport", "token"]
