"""What is installed: our own `verifiers`, nothing heavy on import, and no `lab` in the wheel."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spec_oracle.installed import ForeignVerifiersError

ROOT = Path(__file__).parents[1]
LIGHT = (
    "audit.registry",
    "audit",
    "cli",
    "servers.contract",
    "efficiency",
    "exact",
    "optimum",
    "report",
    "statistics",
    "toy",
)
HEAVY = {
    "scipy.optimize",
    "scipy.stats",
    "torch",
    "hypothesis",
    "transformers",
    "matplotlib",
    "networkx",
    "gguf",
    "triton",
    "jax",
    "httpx",
}


def run(code, *path, arguments=()):
    """Run Python code, or a module's command line, in a fresh process, with ``path`` before everything."""
    what = ["-c", code] if code else ["-m", "spec_oracle.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    command = [sys.executable, *what]
    where = path[0] if path else ROOT
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=where, check=False)


def fake(folder, text):
    """Write a package called `verifiers` whose import would be noticed."""
    (folder / "verifiers").mkdir()
    (folder / "verifiers" / "__init__.py").write_text(text)
    return folder


@pytest.mark.parametrize("text", ["", "raise SystemExit(0)", "def get(name): return name"])
def test_a_foreign_verifiers_is_named_in_one_line(text, tmp_path):
    fake(tmp_path, text)
    found = run(None, tmp_path, arguments=["audit", "block"])
    assert found.returncode == 3
    assert found.stdout == ""
    assert found.stderr.startswith(f"spec-oracle: verifiers: found {tmp_path}")
    assert found.stderr.count("\n") == 1
    assert "environment of its own" in found.stderr


def test_an_import_that_needs_verifiers_raises_an_import_error(tmp_path):
    fake(tmp_path, "raise SystemExit(0)")
    code = (
        "import spec_oracle\n"
        "try:\n    import spec_oracle.exact\n"
        "except ImportError as error:\n    print(type(error).__name__)"
    )
    assert run(code, tmp_path).stdout.strip() == ForeignVerifiersError.__name__


def test_a_foreign_module_that_is_already_loaded_is_noticed(tmp_path):
    fake(tmp_path, "")
    found = run("import verifiers, sys; sys.path.pop(0); import spec_oracle.toy", tmp_path)
    assert "ForeignVerifiersError" in found.stderr


def test_pytest_runs_with_a_foreign_verifiers_package(tmp_path):
    fake(tmp_path, "")
    (tmp_path / "test_something.py").write_text("def test_nothing(): pass")
    code = f"import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {str(tmp_path)!r}]))"
    assert run(code, tmp_path).returncode == 0


def test_nothing_heavy_is_imported_before_it_is_used():
    imports = ", ".join(f"spec_oracle.{name}" for name in LIGHT)
    found = run(f"import sys, verifiers, {imports}; print(*sys.modules)")
    assert found.returncode == 0, found.stderr
    assert not HEAVY & set(found.stdout.split())


def test_the_wheel_holds_two_packages_and_asks_for_what_they_import():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["spec_oracle", "verifiers"]
    required = {line.split(">")[0] for line in project["project"]["dependencies"]}
    assert required == {
        "array-api-compat",
        "hypothesis",
        "jinja2",
        "joblib",
        "numpy",
        "pebble",
        "rich",
        "scipy",
    }


def test_the_audit_extra_has_no_developer_tools():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    needed = {name for extra in ("torch", "hf", "fast") for name in extras[extra]}
    assert extras["audit"] == ["spec-oracle[torch,hf,fast]"]
    assert not needed & {*extras["test"], *extras["lint"], *extras["docs"]}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\naudit: install " in makefile
    assert "\ntest: develop " in makefile
    assert all(
        "constraint" in line or "vllm" in line.lower() or "--no-deps" in line for line in installs(makefile)
    )


def installs(makefile):
    """Return the lines of a Makefile that install packages, with its variable written out."""
    pip = re.search(r"^PIP := (.*)", makefile, re.MULTILINE)[1]
    found = [line.replace("$(PIP)", pip) for line in makefile.splitlines()]
    return [line for line in found if "pip install" in line]
