"""Gather the GPU suite for a machine without a package registry: one folder to carry there.

    python lab/benchmarks/gpu_kit/gather.py [FOLDER]        default: build/gpu-kit

The machine has its own Python 3.12 with torch, triton, numpy, scipy and transformers. The folder brings the
rest: wheels, the suite, the rules, the sources of the Triton kernels that are fetched here, and the script
that runs all of it, ``bash lab/benchmarks/gpu_kit/run.sh``. In a checkout on such a machine only the folder's
``wheels`` and ``engines`` are used.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from spec_oracle.third_party.samplers.wheels import FOLDER_VARIABLE, cache_folder, wheel

ROOT = Path(__file__).parents[3]
MISSING = (
    *("array-api-compat", "hypothesis", "jinja2", "joblib"),
    *("pebble", "pytest", "pytest-xdist", "rich"),
)
"""What the suite imports that such a machine may not have; pip adds what these need."""

SUITE = ("spec_oracle", "verifiers", "gpu_tests", "lab/benchmarks", "conftest.py", "pyproject.toml")
LARGEST_BYTES = 60e6


def main() -> None:
    """Fill the folder, and refuse one that is too large to carry."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "gpu-kit"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
    target = ["--python-version", "3.12", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "--dest", folder / "wheels", *target, *constraints, *MISSING], check=True)
    for name in SUITE:
        source, copy = ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    print(kernels(folder / "engines"))
    print("left out: vLLM and SGLang themselves, weights of models (--target names those of the machine)")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LARGEST_BYTES:
        raise SystemExit(f"{folder}: {size / 1e6:.1f} MB, more than {LARGEST_BYTES / 1e6:.0f} MB")
    print(f"{folder}: {size / 1e6:.1f} MB; carry it there, run: bash lab/benchmarks/gpu_kit/run.sh")


def kernels(folder: Path) -> str:
    """Copy the Triton kernels of SGLang that are fetched; return what was carried or how to fetch them."""
    sglang = wheel("sglang")
    if not sglang.is_fetched:
        fetch = "python -m spec_oracle.third_party.samplers.fetch sglang"
        return f"left out: Triton kernels; {fetch} puts them into {cache_folder()} (${FOLDER_VARIABLE})"
    shutil.copytree(sglang.folder, folder / sglang.folder.name)
    return f"carried: Triton kernels of {sglang.requirement}"


if __name__ == "__main__":
    main()
