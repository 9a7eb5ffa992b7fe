"""The results of `run.sh`: gathered into one file while it runs, and written as docs/evidence/gpu.md.

    python -m lab.benchmarks.gpu_kit.page gpu.json... --output docs/evidence/gpu.md
    python -m lab.benchmarks.gpu_kit.page --gather WORK --output OUT      (run.sh does this after each part)

Needs neither torch nor a GPU.
"""

import argparse
import json
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from gpu_tests.figures import markdown
from lab.benchmarks.measure import table

SUITES = ("float32", "bfloat16", "float16", "texts")
TESTS = (*SUITES, "kernels", "rest")


def gather(work):
    """Return what the parts wrote so far into the folder ``work``."""
    found = {"when": datetime.now(UTC).date().isoformat(), "python": platform.python_version(), "gpu": gpu()}
    parts = (work / "parts.tsv").read_text().splitlines() if (work / "parts.tsv").exists() else []
    found["parts"] = [
        dict(zip(("part", "ended", "seconds"), line.split("\t"), strict=True)) for line in parts
    ]
    for name in SUITES:
        if (file := work / f"{name}.json").exists():
            found[name] = json.loads(file.read_text())
    if (work / "rules.json").exists():
        found["verification"] = json.loads((work / "rules.json").read_text())
    files = [work / f"{name}.xml" for name in TESTS]
    found["tests"] = {file.stem: ended(file) for file in files if file.exists()}
    return found


def merged(runs):
    """Return the results of several runs, on one kind of GPU, as one: the last run of each part counts."""
    if len({run["gpu"] for run in runs}) > 1:
        raise SystemExit("the runs are of unlike GPUs")
    last = {one["part"]: one for run in runs for one in run["parts"]}
    tests = {name: one for run in runs for name, one in run["tests"].items()}
    return {
        **{name: one for run in runs for name, one in run.items()},
        "parts": [*last.values()],
        "tests": tests,
    }


def ended(file):
    """Return how many tests of a JUnit file ran, failed and were skipped, and the messages of failures."""
    suite = ET.parse(file).getroot().find("testsuite")
    count = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    failed = [
        {"test": case.get("name"), "message": (case.find(kind).get("message") or "")[:400]}
        for case in suite.iter("testcase")
        for kind in ("failure", "error")
        if case.find(kind) is not None
    ]
    return {**count, "seconds": float(suite.get("time")), "failed": failed}


def gpu():
    """Return the GPU, its driver and its memory, as nvidia-smi says them; None without it."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


HEAD = """\
# On a GPU

Written by `python -m lab.benchmarks.gpu_kit.page` from what `lab/benchmarks/gpu_kit/run.sh` measured on
{when}; do not edit. Hardware: {hardware}. Every figure on this page is of this machine.

[Language models](../guide/language-models.md#the-gpu-suite) says how each rule is judged, and what
the columns mean.
"""


def lines(found):
    """Yield the lines of the page."""
    hardware = found["gpu"] or "no GPU: small sizes on a processor, which show that the script runs"
    yield HEAD.format(when=found["when"], hardware=hardware)
    yield "| part | ended | seconds | tests | failed |"
    yield "| --- | --- | --: | --: | --: |"
    for one in found["parts"]:
        tests = found["tests"].get(PARTS.get(one["part"]), None)
        count = (f"{tests['tests']:,}", str(tests["failures"] + tests["errors"])) if tests else ("-", "-")
        yield f"| {one['part']} | {one['ended']} | {one['seconds']} | " + " | ".join(count) + " |"
    for name, tests in found["tests"].items():
        for failed in tests["failed"]:
            yield ""
            yield f"* FAILED ({name}): `{failed['test']}`: {' '.join(failed['message'].split())}"
    for name in ("float32", "bfloat16", "float16"):
        if name in found:
            yield ""
            yield f"## Rules and planted defects, {name}"
            yield ""
            if name in SHARED:
                yield SHARED[name]
                yield ""
            yield from markdown(found[name])
    if "texts" in found:
        yield ""
        yield "## Greedy texts, batches and seeds, float32"
        yield ""
        yield from markdown({**found["texts"], "rules": [], "planted": []})
    if "verification" in found:
        yield ""
        yield "## Verification beside a copy of the rows"
        yield ""
        yield from verification(found["verification"])


SHARED = dict.fromkeys(
    ("bfloat16", "float16"),
    "Both 16-bit suites ran at once, in two processes each: their milliseconds are those of a shared GPU.",
)
"""What a table's times are not."""

HEADS = ("rule", "rows", "B", "paths", "ms", "copy ms", "copy GB/s", "verification / copy")


def verification(found):
    """Yield what `rules` measured, as a table in Markdown."""
    left_out = ", ".join(found["left_out"])
    yield (
        f"{found['hardware']}, torch {found['torch']}; V = {found['vocab_size']:,}, "
        f"L = {found['draft_length']}; milliseconds a call, medians of {found['rounds']}. A copy reads and "
        f"writes all rows once; GB/s counts both. Not timed: {left_out}, which are made for toy vocabularies."
    )
    yield ""
    rows = ([*row.values()] for row in found["times"])
    yield from table(HEADS, ((*row[:2], str(row[2]), str(row[3]), *row[4:]) for row in rows))


PARTS = {
    "suite float32": "float32",
    "suite bfloat16": "bfloat16",
    "suite float16": "float16",
    "batches and seeds float32": "texts",
    "compiled Triton kernels": "kernels",
    "rest of the suite": "rest",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="*", type=Path, help="gpu.json of runs: parts of later ones replace others"
    )
    parser.add_argument("--gather", type=Path, metavar="WORK")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.gather:
        found = gather(options.gather)
        (options.output / "gpu.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        page = options.output / "gpu.md"
    else:
        found = merged([json.loads(file.read_text(encoding="utf-8")) for file in options.files])
        page = options.output
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(lines(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
