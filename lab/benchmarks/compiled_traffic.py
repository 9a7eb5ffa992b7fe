"""Bytes that the kernels of compiled rules read and write, by what the compiler knows of their accesses."""

import logging
import math
from unittest import mock

import torch
from torch._inductor import compile_fx, config, virtualized
from torch._inductor.dependencies import MemoryDep
from torch._inductor.graph import GraphLowering

from lab.benchmarks.measure import table
from lab.benchmarks.traffic import LENGTH, VOCAB
from lab.benchmarks.verification import chains, on_uniforms


def compiled_traffic(name, dtype):
    """Return the bytes that the kernels of a compiled rule read and write, and those of the rows."""
    given, moved = chains(1, LENGTH, VOCAB, "cpu", dtype), []

    def count(graph):
        moved.extend(_kernel_bytes(node) for node in graph.scheduler.nodes)
        return 0, [], []

    arrays = given.tokens, given.draft_probs, given.target_probs, torch.full((1, 2), 0.5)
    log = compile_fx.inductor_metrics_log
    # The compiler asks for counts where it is to log them.
    with (
        mock.patch.object(GraphLowering, "count_bytes", count),
        mock.patch.object(log, "isEnabledFor", lambda level: level >= logging.INFO),
        mock.patch.object(log, "info"),
        config.patch(force_disable_caches=True),
    ):
        torch.compile(on_uniforms(name))(*arrays)
    return sum(moved), given.draft_probs.nbytes + given.target_probs.nbytes


def _kernel_bytes(node):
    """Count what a kernel reads and writes; of what is gathered, as many numbers as are taken."""
    own = {operation.get_name() for operation in node.get_nodes()}
    total = 0
    for access in node.read_writes.reads | node.read_writes.writes:
        made = node.scheduler.name_to_buf.get(access.name)
        if made and {user.node.get_name() for user in made.users} <= own:
            continue  # never leaves the kernel
        if isinstance(access, MemoryDep) and access.is_indirect():
            total += int(math.prod(access.size)) * virtualized.V.graph.get_dtype(access.name).itemsize
        else:
            total += access.numbytes_hint()
    return total


def row(name):
    counts = (compiled_traffic(name, dtype) for dtype in (torch.float32, torch.bfloat16))
    return f"`{name}`", *(moved / least for moved, least in counts)


def lines():
    yield "## Bytes moved by compiled rules"
    yield ""
    yield f"""\
Over the bytes of both models' rows, L = {LENGTH}, V = {VOCAB:,}, one request: all that the kernels read and
write that `torch.compile` makes of a rule on given uniforms. Tests hold both below twice the rows.
"""
    yield from table(["rule", "float32", "bfloat16"], map(row, ("token", "block")))
