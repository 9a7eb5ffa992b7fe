"""The recipes of CONTRIBUTING.md work: each is followed in a copy of the tree, and ends as it says.

A Python or Markdown block whose first line names a file is that file; a diff block adds its "+" lines beside
its other lines, and takes its "-" lines away; the lines of a shell block are run, and
an audit of all checks is a quick one.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
RECIPES = dict(re.findall(r"^## (Add .*?)\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
COPIED = ("verifiers", "spec_oracle", "tests", "docs", "conftest.py", "pyproject.toml", "mkdocs.yml")


@pytest.fixture
def tree(tmp_path):
    """Return a copy of the tree whose `bin` has the commands that recipes run."""
    without = shutil.ignore_patterns("*.png", "*.svg")  # compiled modules are copied, for speed
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name, **({"ignore": without} if copy is shutil.copytree else {}))
    commands = {"pytest": "pytest -p no:cacheprovider", "spec-oracle": "spec_oracle.cli"}
    (tmp_path / "bin").mkdir()
    for name, module in commands.items():
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        script.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_works(recipe, tree):
    steps = {"python": write, "markdown": write, "diff": insert, "sh": run}
    if recipe == "Add a finding":  # it goes on where the adapter ends
        for language, text in blocks("Add an adapter"):
            if language != "sh":
                steps[language](text, tree)
    for language, text in blocks(recipe):
        steps[language](text, tree)


def blocks(recipe):
    """Return the language and the text of every block."""
    found = re.findall(r"^(```+)(\w+)\n(.*?)^\1$", RECIPES[recipe], re.MULTILINE | re.DOTALL)
    return [(language, text) for _, language, text in found]


def write(text, tree):
    name, _, rest = text.removeprefix("# ").partition("\n")
    assert not (tree / name).exists()
    (tree / name).write_text(rest, "utf-8")


def insert(text, tree):
    head, _, lines = text.partition("\n")
    path = tree / head.removeprefix("--- ")
    lines = lines.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    old = path.read_text("utf-8")
    assert old.count(before) == 1, f"{path.name} has no such lines:\n{before}"
    path.write_text(old.replace(before, after), "utf-8")


def run(text, tree):
    text = re.sub(r"^(spec-oracle audit \w+)$", r"\1 --quick", text, flags=re.MULTILINE)
    environment = os.environ | {"PYTHONPATH": str(tree), "PATH": f"{tree / 'bin'}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-ec", text], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_fast_tests_are_there():
    (fast,) = re.findall(
        r"^FAST := (.*?)\n\n", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    paths = fast.replace("\\\n", " ").split()
    assert len(paths) > 5
    assert not [path for path in paths if not (ROOT / path).exists()]
