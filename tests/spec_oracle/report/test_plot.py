"""Pictures of block efficiency: what is drawn is what the efficiency command computes."""

import subprocess
import sys

import pytest

from spec_oracle.cli import main
from spec_oracle.efficiency import sweeps
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.report.plot import save_sweeps
from spec_oracle.toy import Instance
from tests.strategies import at_night

NAMES = ("token", "block", "greedy_multipath_block", "greedy_block", "top_draft")
INSTANCE = Instance.random(2, 2, num_paths=2, seed=2)


@pytest.mark.parametrize(("length", "paths"), [(1, 2), *at_night((2, 2), (2, 1))])
def test_the_command_writes_a_picture(length, paths, tmp_path, capsys):
    file, picture = tmp_path / "instance.json", tmp_path / "out.png"
    Instance.random(2, length, num_paths=paths, seed=2).save(file)
    arguments = [argument for name in NAMES for argument in ("--verifier", name)]
    assert main(["efficiency", str(file), *arguments, "--plot", str(picture)]) == 0
    assert "greedy_block" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_several_files_are_refused(tmp_path, capsys):
    files = [tmp_path / "instance.json", tmp_path / "same.json"]
    for file in files:
        INSTANCE.save(file)
    assert main(["efficiency", *map(str, files), "--plot", str(tmp_path / "out.png")]) == 3
    assert "--plot: expected one instance file, got 2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing/out.png", "out.unknown"])
def test_a_file_that_cannot_be_written(tmp_path, name):
    with pytest.raises(InvalidInputError, match="--plot: "):
        save_sweeps(tmp_path / name, "", sweeps(INSTANCE, ("token",)))


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SpecOracleError, match=r"pip install 'spec-oracle\[plot\]'"):
        save_sweeps(tmp_path / "out.png", "", sweeps(INSTANCE, ("token",)))


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, spec_oracle.report.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
