"""Time of verification beside a copy of the same bytes, and the ratio of the two.

``python benchmarks/verification.py`` measures small rows on the CPU; with ``--device cuda`` the full size,
B = 64, L = 8, V = 128,256. Prints the hardware and Markdown rows for benchmarks/RESULTS.md.
"""

import argparse
import json
import platform
import statistics
import time
from functools import partial
from pathlib import Path

import torch

import verifiers
from verifiers import Drafts, torch_decisions

REPEATS = 10


def hardware(device):
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    with open("/proc/cpuinfo") as lines:  # noqa: PTH123  # not a file of ours
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} thread(s)"


def seconds(run, device):
    """Return the median time of a run, after one to warm up."""
    times = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def drafts(batch, length, vocab, device, dtype):
    generator = torch.Generator(device).manual_seed(0)
    rows = torch.empty((2, batch, 1, length + 1, vocab), device=device).exponential_(generator=generator)
    target, draft = (rows / rows.sum(-1, keepdim=True)).to(dtype)
    tokens = torch.randint(vocab, (batch, 1, length), device=device, generator=generator)
    return Drafts(tokens, draft[:, :, :-1].contiguous(), target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    full = options.device.startswith("cuda")
    batch = options.batch or (64 if full else 1)
    length, vocab = 8, 128_256
    print(f"{hardware(options.device)}; B={batch}, L={length}, V={vocab:,}; median of {REPEATS}\n")
    print("| verifier | dtype | verification, ms | copy of the same bytes, ms | copy / verification |")
    print("| --- | --- | --- | --- | --- |")
    figures = []
    for dtype in (torch.float32, torch.bfloat16):
        given = drafts(batch, length, vocab, options.device, dtype)
        copies = [torch.empty_like(rows) for rows in (given.draft_probs, given.target_probs)]

        def copy(given=given, copies=copies):
            copies[0].copy_(given.draft_probs)
            copies[1].copy_(given.target_probs)

        bare = seconds(copy, options.device)
        decisions = torch_decisions(torch.Generator(options.device).manual_seed(1))
        for name in ("token", "block"):
            rule = verifiers.get(name)
            verify = partial(rule.verify, given, decisions)
            spent = seconds(verify, options.device)
            kind = str(dtype).removeprefix("torch.")
            print(f"| {name} | {kind} | {1e3 * spent:.2f} | {1e3 * bare:.2f} | {bare / spent:.2f} |")
            figures.append({"verifier": name, "dtype": kind, "milliseconds": 1e3 * spent, "copy": 1e3 * bare})
    if options.json:
        size = {"batch": batch, "draft_length": length, "vocab_size": vocab}
        found = {"hardware": hardware(options.device), "torch": torch.__version__, **size, "times": figures}
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
