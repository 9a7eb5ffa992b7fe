"""Verification at the size of a real vocabulary: beside a copy of the same bytes, and beside other rules.

``python -m lab.benchmarks.verification`` measures the first on the CPU; with ``--device cuda`` the full size,
B = 64, L = 8, V = 128,256. It needs torch and our verifiers only, so that the GPU kit can bring it along.
"""

import argparse
import ctypes
import json
import time
from functools import partial
from itertools import product
from pathlib import Path

import torch

import verifiers
from lab.benchmarks.measure import hardware, in_turns, median, ratio, table
from verifiers import Drafts, Paths, replayed_decisions, torch_decisions

ROUNDS = 9
VOCAB, COPIED, LENGTH, BATCHES = 151_936, 128_256, 8, (1, 16)
OTHERS = {
    "token": ("transformers", "vllm-v0", "vllm-ascend-token"),
    "block": ("transformers", "vllm-ascend-block"),
}
"""What a rule is held beside; transformers has no block rule, so that its token rule stands there too."""


def chains(batch, length, vocab, device, dtype):
    generator = torch.Generator(device).manual_seed(0)
    rows = torch.empty((2, batch, 1, length + 1, vocab), device=device).exponential_(generator=generator)
    target, draft = (rows / rows.sum(-1, keepdim=True)).to(dtype)
    tokens = torch.randint(vocab, (batch, 1, length), device=device, generator=generator)
    return Paths(tokens, draft[:, :, :-1].contiguous(), target)


def drafts_of(paths):
    return Drafts.of_paths(*paths.arrays)


def beside_a_copy(batch, device):
    """Yield (verifier, number type, its milliseconds, those of a copy, copy / verification)."""

    def clock():
        if not device.startswith("cuda"):
            return time.process_time()
        torch.cuda.synchronize(device)
        return time.perf_counter()

    for dtype in (torch.float32, torch.bfloat16):
        given = chains(batch, LENGTH, COPIED, device, dtype)
        copies = [torch.empty_like(rows) for rows in (given.draft_probs, given.target_probs)]

        def copy(given=given, copies=copies):
            copies[0].copy_(given.draft_probs)
            copies[1].copy_(given.target_probs)

        decisions = torch_decisions(torch.Generator(device).manual_seed(1))
        drafts = drafts_of(given)
        calls = {name: partial(verifiers.get(name).verify, drafts, decisions) for name in ("token", "block")}
        times = in_turns({**calls, "copy": copy}, ROUNDS, clock)
        for name in calls:
            kind = str(dtype).removeprefix("torch.")
            yield name, kind, median(times[name]), median(times["copy"]), ratio(times, "copy", name)


def on_uniforms(name):
    """Return a rule for one path as a function that `torch.compile` takes, of arrays and uniforms [B, 2]."""
    rule = verifiers.get(name)

    def verify(tokens, draft, target, uniforms):
        verdict = rule.verify(Drafts.of_paths(tokens, draft, target), replayed_decisions(uniforms))
        return verdict.num_accepted, verdict.next_token

    return verify


def other(name, given):
    """Return a call of another project's rule on all requests.

    transformers' takes logits, made before, of one request; the others have their adapter's conversions in
    their time.
    """
    tokens, draft, target = given.tokens[:, 0], given.draft_probs[:, 0], given.target_probs[:, 0]
    if name == "transformers":
        from transformers.generation.utils import _speculative_sampling

        draft, target = draft.log(), target.log()
        each = [(tokens[b : b + 1], draft[b : b + 1], LENGTH, target[b : b + 1]) for b in range(given.batch)]
        return lambda: [_speculative_sampling(*one) for one in each]
    from spec_oracle.audit.registry import known

    return partial(known(name).load(), tokens, draft, target)


def beside_others(batches=BATCHES):
    """Yield rows: rule, B, what, milliseconds a request, and that over ours, eager and compiled."""
    for batch, (name, others) in product(batches, OTHERS.items()):
        given = chains(batch, LENGTH, VOCAB, "cpu", torch.float32)
        rule, decisions = verifiers.get(name), torch_decisions(torch.Generator().manual_seed(1))
        uniforms = torch.rand(batch, 2, dtype=torch.float64)
        rows = given.tokens, given.draft_probs, given.target_probs
        calls = {
            "ours": partial(rule.verify, drafts_of(given), decisions),
            "compiled": partial(torch.compile(on_uniforms(name)), *rows, uniforms),
        }
        calls |= {engine: other(engine, given) for engine in others}
        times = in_turns(calls, ROUNDS)
        for what in calls:
            over = (ratio(times, what, way) for way in ("ours", "compiled"))
            yield f"`{name}`", str(batch), what, median(times[what]) / batch, *over


def keep_freed_memory():
    """Tell glibc to keep it: else each array of several megabytes comes in fresh pages, one fault each."""
    libc, trim_threshold, mmap_threshold, largest = ctypes.CDLL(None), -1, -3, 2**25
    assert libc.mallopt(mmap_threshold, largest)
    assert libc.mallopt(trim_threshold, 2**30)


def lines():
    yield "## Verification beside others"
    yield ""
    yield f"""\
L = {LENGTH}, V = {VOCAB:,}, float32, milliseconds a request. transformers takes logits, which it is given, of
one request at a time, and has no block rule; engines are called as audits call them, with what their adapters
convert in their time. Compiled is `torch.compile` of ours on given uniforms.
"""
    heads = ["rule", "B", "what", "ms a request", "/ ours", "/ compiled"]
    yield from table(heads, beside_others())
    yield ""
    yield "With an allocator that keeps what is freed; glibc's hands large arrays back to the system:"
    yield ""
    keep_freed_memory()
    yield from table(heads, beside_others(BATCHES[-1:]))
    yield ""
    yield f"Beside a copy of the rows, B = 1, L = {LENGTH}, V = {COPIED:,}, milliseconds:"
    yield ""
    yield from copies(beside_a_copy(1, "cpu"))


def copies(figures):
    """Yield the table of verification beside a copy."""
    return table(["rule", "numbers", "verification", "copy", "copy / verification"], figures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    is_cuda = options.device.startswith("cuda")
    batch = options.batch or (64 if is_cuda else 1)
    name = torch.cuda.get_device_name(options.device) if is_cuda else hardware()
    figures = list(beside_a_copy(batch, options.device))
    print(f"{name}; B = {batch}, L = {LENGTH}, V = {COPIED:,}; milliseconds, medians of {ROUNDS}\n")
    print("\n".join(copies(figures)))
    if options.json:
        heads = ("verifier", "dtype", "milliseconds", "copy", "share")
        times = [dict(zip(heads, row, strict=True)) for row in figures]
        size = {"batch": batch, "draft_length": LENGTH, "vocab_size": COPIED}
        found = {"hardware": name, "torch": torch.__version__, **size, "times": times}
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
