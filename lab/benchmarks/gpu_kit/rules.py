"""Milliseconds of one call of every rule at a real vocabulary, beside a copy of the rows that it reads.

    python -m lab.benchmarks.gpu_kit.rules [--device cuda] [--size small] [--json FILE]

V = 151,936, L = 4, B = 16 and 64, one path or two; rows in float32 and bfloat16. The figures are written
after each rule.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch

import verifiers
from lab.benchmarks.gpu_kit.page import verification
from lab.benchmarks.measure import hardware, in_turns, median
from verifiers import Drafts, StatefulVerifier, torch_decisions, traits_of

LENGTH, PATHS = 4, 2
SIZES = {"small": (1009, (2, 3), 1), "large": (151_936, (16, 64), 7)}
"""Vocabulary, batches, rounds."""

KEYS = ("rule", "dtype", "batch", "paths", "ms", "copy_ms", "copy_gb_s", "over_copy")


def names():
    """Return the rules that run at full vocabularies, and those that do not."""
    every = [name for name in verifiers.names() if name != "block_transport"]
    toys = [name for name in every if traits_of(verifiers.get(name)).largest_vocab_size]
    return [name for name in every if name not in toys], [*toys, "block_transport"]


def drafts(batch, paths, vocab, device, dtype):
    """Return drafts sampled from rows that are alike: most of their tokens may be accepted."""
    generator = torch.Generator(device).manual_seed(0)
    shape = (batch, 1, LENGTH + 1, vocab)
    noise = [torch.empty(shape, device=device).normal_(generator=generator) for _ in range(2)]
    p, q = (3 * noise[0]).softmax(-1), (3 * noise[0] + 0.7 * noise[1]).softmax(-1)
    target, draft = (rows.to(dtype).expand(-1, paths, -1, -1).contiguous() for rows in (p, q))
    tokens = torch_decisions(generator).categorical(draft[:, :, :-1])
    return Drafts.of_paths(tokens, draft[:, :, :-1].contiguous(), target)


def call_of(rule, given, decisions):
    if isinstance(rule, StatefulVerifier):
        return partial(rule.verify, given, decisions, rule.initial_state(given.batch))
    return partial(rule.verify, given, decisions)


def figures(device, size):
    """Yield a row a rule, number type and batch, in the order of `KEYS`."""
    vocab, batches, rounds = SIZES[size]

    def clock():
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter()

    for batch in batches:
        for dtype in (torch.float32, torch.bfloat16):
            for paths in (1, PATHS):
                given = drafts(batch, paths, vocab, device, dtype)
                rows = given.paths.draft_probs, given.paths.target_probs
                copies = [torch.empty_like(one) for one in rows]

                def copy(rows=rows, copies=copies):
                    for one, other in zip(rows, copies, strict=True):
                        other.copy_(one)

                decisions = torch_decisions(torch.Generator(device).manual_seed(1))
                moved = 2 * sum(one.numel() * one.element_size() for one in rows)
                for name in names()[0]:
                    rule = verifiers.get(name)
                    if traits_of(rule).single_path != (paths == 1):
                        continue
                    times = in_turns({"rule": call_of(rule, given, decisions), "copy": copy}, rounds, clock)
                    spent, copied = median(times["rule"]), median(times["copy"])
                    kind = str(dtype).removeprefix("torch.")
                    yield name, kind, batch, paths, spent, copied, moved / copied / 1e6, spent / copied


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=tuple(SIZES), default="large")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    vocab, _, rounds = SIZES[options.size]
    found = {
        "hardware": torch.cuda.get_device_name(options.device) if on_gpu else hardware(),
        "torch": torch.__version__,
        "vocab_size": vocab,
        "draft_length": LENGTH,
        "rounds": rounds,
        "left_out": names()[1],
        "times": [],
    }
    for row in figures(options.device, options.size):
        found["times"].append(dict(zip(KEYS, row, strict=True)))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(verification(found)))


if __name__ == "__main__":
    main()
