"""Run all benchmarks of a machine without a GPU in turn: ``make benchmarks``, on an idle machine.

All but the last are measured on one core.
Writes lab/benchmarks/RESULTS.md, section by section.
"""

import platform
import time
from importlib.metadata import version
from pathlib import Path

from lab.benchmarks import (
    audits,
    compiled_traffic,
    draws_needed,
    laws,
    optima,
    selection,
    traffic,
    verification,
)
from lab.benchmarks.measure import hardware

RESULTS = Path(__file__).with_name("RESULTS.md")
LIBRARIES = ("numpy", "scipy", "torch", "transformers", "networkx", "pyro-ppl")

HEAD = """\
# Benchmark results

Written by `make benchmarks` in one run; do not edit. One core of {hardware}, Python {python}, {libraries}.
Milliseconds of processor time, medians of calls that take turns; ratios are medians of the turns' ratios.
There is no earlier release to compare with. For a GPU see `make gpu-kit`, for servers
[docs/evidence/servers-results.md](../../docs/evidence/servers-results.md).
"""


def main():
    started = time.monotonic()
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    text = HEAD.format(hardware=hardware(), python=platform.python_version(), libraries=libraries)
    for section in (laws, optima, traffic, selection, draws_needed, verification, compiled_traffic, audits):
        for line in ("", *section.lines()):
            text += line + "\n"
        RESULTS.write_text(text, encoding="utf-8")
        print(f"{section.__name__}: {time.monotonic() - started:.0f} s", flush=True)
    RESULTS.write_text(
        f"{text}\nThe run took {(time.monotonic() - started) / 60:.0f} minutes.\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
