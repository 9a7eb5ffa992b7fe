"""Run the GPU suite and its benchmark beside this file, offline, against this machine's own torch.

    python3 run.py [--device cuda]

Installs the wheels into a folder of its own, nothing else; writes ``figures.json``: hardware, versions, how
the tests ended, and the times. Ends with the exit code of the tests.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).resolve().parent
SUITE, PACKAGES = HERE / "suite", HERE / "packages"


def main() -> int:
    """Install, test, measure, and write down what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    offline = ["--no-index", "--no-deps", "--upgrade", "--target", PACKAGES]
    wheels = sorted((HERE / "wheels").glob("*.whl"))
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "install", *offline, *wheels], check=True)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    report, times = HERE / "tests.xml", HERE / "times.json"

    def python(*arguments: object) -> int:
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, cwd=SUITE, env=environment, check=False).returncode

    # What `make test-gpu` runs, but for the kernels of engines: their wheels are not in the kit.
    selected = ("-m", "(cuda or not lm) and not engines")
    code = python(
        "-m",
        "pytest",
        "gpu_tests",
        "-p",
        "no:cacheprovider",
        "--device",
        device,
        *selected,
        f"--junit-xml={report}",
        "--override-ini=junit_family=xunit1",  # tests record figures of their own
    )
    measured = python("-m", "lab.benchmarks.verification", "--device", device, "--json", times)
    suite = ET.parse(report).getroot().find("testsuite").attrib
    figures = {
        "python": platform.python_version(),
        "tests": {name: int(suite[name]) for name in ("tests", "failures", "errors", "skipped")},
        "seconds": float(suite["time"]),
        "verification": json.loads(times.read_text()) if measured == 0 else None,
    }
    (HERE / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(f"{HERE / 'figures.json'} written")
    return code or measured


if __name__ == "__main__":
    sys.exit(main())
