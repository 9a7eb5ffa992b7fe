"""Fetching: only wheels of the pinned hash are read, and nothing but the files asked for is kept."""

import zipfile
from pathlib import Path

import pytest

from spec_oracle.errors import EngineError
from spec_oracle.third_party.samplers.fetch import fetch, main, selected, sha256_of
from spec_oracle.third_party.samplers.wheels import FOLDER_VARIABLE, WHEELS, Wheel, wheel


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny/a.py", "A = 1\n")
        file.writestr("tiny/b.py", "B = 2\n")
    return path


class Index:
    """A package index that hands out one file and counts the requests."""

    def __init__(self, archive: Path) -> None:
        self.archive, self.requests = archive, []

    def __call__(self, requirement: str, folder: Path) -> None:
        self.requests.append(requirement)
        (folder / self.archive.name).write_bytes(self.archive.read_bytes())


def test_only_the_named_files_are_kept(archive, cache):
    tiny = Wheel("tiny", "1.0", sha256_of(archive), ("tiny/a.py",))
    with pytest.raises(EngineError, match=r"tiny==1\.0 is not fetched; run: python -m"):
        tiny.fetched_folder()
    folder = fetch(tiny, Index(archive))
    assert folder == tiny.fetched_folder() == cache / "tiny-1.0"
    assert [path.relative_to(cache) for path in cache.rglob("*.*") if path.is_file()] == [
        Path("tiny-1.0/tiny/a.py")
    ]


def test_present_wheels_are_not_downloaded_again(archive):
    tiny, index = Wheel("tiny", "1.0", sha256_of(archive), ("tiny/a.py",)), Index(archive)
    fetch(tiny, index)
    fetch(tiny, index)
    assert index.requests == ["tiny==1.0"]


def test_a_wheel_of_another_hash_is_refused_and_not_kept(archive, cache):
    tiny = Wheel("tiny", "1.0", "0" * 64, ("tiny/a.py",))
    with pytest.raises(EngineError, match=r"tiny==1\.0: sha256 is [0-9a-f]{64}, pinned is 0000"):
        fetch(tiny, Index(archive))
    assert list(cache.iterdir()) == []


def test_wheels_are_selected_by_package_or_version():
    assert selected([]) == list(WHEELS)
    assert {w.version for w in selected(["vllm"])} == {"0.6.6.post1", "0.7.3"}
    assert selected(["vllm==0.7.3"]) == [wheel("vllm", "0.7.3")] == [wheel("vllm")]
    assert selected(["vllm-v0", "vllm-ascend-block@0.18.0"]) == [
        wheel("vllm", "0.7.3"),
        wheel("vllm-ascend", "0.18.0"),
    ]
    with pytest.raises(EngineError, match="nothere: not among the pinned wheels"):
        selected(["nothere"])
    with pytest.raises(EngineError, match=r"vllm==9 is not among"):
        wheel("vllm", "9")


def test_the_command_reports_each_wheel_and_a_wrong_name(capsys, monkeypatch):
    def fail(wheel: Wheel) -> Path:
        if wheel.package == "sglang":
            raise EngineError("sglang==0.5.23: no network")
        return Path("there")

    monkeypatch.setattr("spec_oracle.third_party.samplers.fetch.fetch", fail)
    assert main(["lmdeploy"]) == 0
    assert capsys.readouterr().out == "lmdeploy==0.18.0: there\n"
    assert main(["sglang", "lmdeploy"]) == 1
    assert capsys.readouterr().err == "sglang==0.5.23: no network\n"
    assert main(["nothere"]) == 3


def test_pins_are_complete():
    for pinned in WHEELS:
        assert len(pinned.sha256) == 64
        assert pinned.files
        assert all(file.endswith(".py") for file in pinned.files)
    assert len({w.requirement for w in WHEELS}) == len(WHEELS)
