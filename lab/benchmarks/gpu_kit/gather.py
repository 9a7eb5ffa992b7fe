"""Gather the GPU suite for a machine without a package registry: one folder to carry there.

    python lab/benchmarks/gpu_kit/gather.py [FOLDER]        default: build/gpu-kit

The machine has its own Python 3.12 with torch, triton, numpy, scipy, hypothesis and transformers; the folder
brings the rest as wheels, the suite, the benchmark, and the script that runs both there: ``python3 run.py``.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MISSING = ("array-api-compat", "gmpy2", "networkx", "pebble", "pytest", "pytest-xdist", "rich")
"""What the suite imports that such a machine does not have; pip adds what these need."""

BENCHMARK = ("lab/benchmarks/measure.py", "lab/benchmarks/verification.py")
SUITE = ("gpu_tests", *BENCHMARK, "conftest.py", "pyproject.toml")
LARGEST_BYTES = 60e6


def main() -> None:
    """Fill the folder, and refuse one that is too large to carry."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "gpu-kit"
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    target = ["--python-version", "3.12", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "download", "--dest", wheels, *target, *constraints, *MISSING], check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    for name in SUITE:
        source, copy = ROOT / name, folder / "suite" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    shutil.copy(Path(__file__).with_name("run.py"), folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LARGEST_BYTES:
        raise SystemExit(f"{folder}: {size / 1e6:.1f} MB, more than {LARGEST_BYTES / 1e6:.0f} MB")
    print(f"{folder}: {size / 1e6:.1f} MB; carry it there and run: python3 run.py")


if __name__ == "__main__":
    main()
