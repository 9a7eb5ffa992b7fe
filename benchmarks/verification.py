"""Verification at the size of a real vocabulary: beside a copy of the same bytes, and beside other rules.

``python -m benchmarks.verification`` measures the first on the CPU; with ``--device cuda`` the full size,
B = 64, L = 8, V = 128,256. It needs torch and our verifiers only, so that the GPU kit can bring it along.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch

import verifiers
from benchmarks.measure import hardware, in_turns, median, ratio, table
from verifiers import Drafts, replayed_decisions, torch_decisions

ROUNDS = 9
VOCAB, LENGTH, BATCHES = 151_936, 8, (1, 16)
OTHERS = {"token": ("transformers", "vllm-v0", "vllm-ascend-token"), "block": ("transformers", "vllm-ascend-block")}
"""What a rule is held beside; transformers has no block rule, so that its token rule stands there too."""


def drafts(batch, length, vocab, device, dtype):
    generator = torch.Generator(device).manual_seed(0)
    rows = torch.empty((2, batch, 1, length + 1, vocab), device=device).exponential_(generator=generator)
    target, draft = (rows / rows.sum(-1, keepdim=True)).to(dtype)
    tokens = torch.randint(vocab, (batch, 1, length), device=device, generator=generator)
    return Drafts(tokens, draft[:, :, :-1].contiguous(), target)


def beside_a_copy(batch, length, vocab, device):
    """Yield (verifier, number type, its milliseconds, those of a copy, copy / verification)."""

    def clock():
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        return time.perf_counter()

    for dtype in (torch.float32, torch.bfloat16):
        given = drafts(batch, length, vocab, device, dtype)
        copies = [torch.empty_like(rows) for rows in (given.draft_probs, given.target_probs)]

        def copy(given=given, copies=copies):
            copies[0].copy_(given.draft_probs)
            copies[1].copy_(given.target_probs)

        decisions = torch_decisions(torch.Generator(device).manual_seed(1))
        calls = {name: partial(verifiers.get(name).verify, given, decisions) for name in ("token", "block")}
        times = in_turns({**calls, "copy": copy}, ROUNDS, clock)
        for name in calls:
            kind = str(dtype).removeprefix("torch.")
            yield name, kind, median(times[name]), median(times["copy"]), ratio(times, "copy", name)


def other(name, given):
    """Return a call of another project's rule on all requests; its adapter's conversions are in its time."""
    from spec_oracle.engines import load_engine

    verify, tokens = load_engine(name).verify, given.tokens[:, 0]
    return lambda: verify(tokens, given.draft_probs[:, 0], given.target_probs[:, 0], torch.Generator())


def beside_others():
    """Yield rows: rule, B, how, our milliseconds a request, and those of the others over ours."""
    for batch in BATCHES:
        given = drafts(batch, LENGTH, VOCAB, "cpu", torch.float32)
        uniforms = torch.rand(batch, 2, dtype=torch.float64)
        for name, others in OTHERS.items():
            rule, decisions = verifiers.get(name), torch_decisions(torch.Generator().manual_seed(1))

            @torch.compile
            def compiled(tokens, draft, target, numbers, rule=rule):
                verdict = rule.verify(Drafts(tokens, draft, target), replayed_decisions(numbers))
                return verdict.num_accepted, verdict.next_token

            calls = {
                "eager": partial(rule.verify, given, decisions),
                "compiled": partial(compiled, given.tokens, given.draft_probs, given.target_probs, uniforms),
            }
            calls |= {engine: other(engine, given) for engine in others}
            times = in_turns(calls, ROUNDS)
            yield from (
                (f"{way} `{name}`" if way in ("eager", "compiled") else way, name, batch, median(times[way]) / batch)
                for way in calls
            )
