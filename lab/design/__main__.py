"""Which tree and which rule emit most for a budget of drafted tokens: ``python -m lab.design``."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spec_oracle.cli import run_command
from spec_oracle.commands.options import (
    OK,
    Parser,
    add,
    file_to_write,
    jobs,
    pair_of,
    pair_options,
    positive,
    progress,
    prompts_of,
    report_options,
    require_files_or_prompts,
    several,
    value,
    write_report,
)
from spec_oracle.toy import Instance


def run(options: Any) -> int:
    """Write the best combinations of a tree and a rule on instances, or on a pair of language models."""
    from lab.design import combinations_of, prompt_designs

    require_files_or_prompts(options, "design")
    combinations_of(options.verifier)
    budgets = sorted(set(options.budget))
    if options.prompts is not None:
        return _run_pair(options, budgets)
    cells, depth = [], 1
    for path in options.files:
        instance = Instance.load(path)
        progress(str(path))
        depth = instance.draft_length
        found = prompt_designs(str(path), instance, budgets, options.verifier)
        cells.append({"prompt": str(path), **found})
    _report(options, ", ".join(path.name for path in options.files), cells, depth)
    return OK


def _run_pair(options: Any, budgets: list[int]) -> int:
    from spec_oracle.report.terminal import showing_progress
    from spec_oracle.sweeps import Plan, rows_for

    prompts = prompts_of(options.prompts)
    title = (
        f"{options.target} drafted by {options.draft}: {len(prompts)} prompts, top-k {options.top_k} "
        f"of {'each model' if options.shortlist == 'union' else 'the target'}, depth {options.depth}, "
        f"temperature {options.temperature:g}"
    )
    same = {"budgets": budgets, "rules": options.verifier, **pair_of(options)}
    plan = Plan(
        "lab.design.figures:measure_prompt",
        {"prompt": prompts, **{name: [value] for name, value in same.items()}},
    )
    with showing_progress() as tell, rows_for(options.output, plan, options.jobs, tell) as cells:
        _report(options, title, cells, options.depth)
    return OK


def _report(options: Any, title: str, cells: list[dict[str, Any]], depth: int) -> None:
    from lab.design import Costs, design
    from lab.design.plot import save_design_plot
    from lab.design.report import FORMATS, page

    costs = Costs(options.draft_cost, options.target_cost, options.verify_cost)
    result = design(title, cells, depth, costs)
    if options.prompts is not None and options.shortlist == "target":
        result = replace(result, notes=(_SHARED.format(options.top_k),))
    formats = FORMATS
    if options.format == "markdown" and options.output is not None:
        plot = None if options.plot is None else os.path.relpath(options.plot, options.output.parent)
        formats = {**FORMATS, "markdown": lambda found: page(found, options.command_line, plot)}
    write_report(options, formats, result)
    if options.plot is not None:
        save_design_plot(result, options.plot)


_SHARED = (
    "Both models are cut to the target's {0} likeliest tokens, so one of {0} distinct drafts at a node is "
    "always accepted. --shortlist union cuts each model to its own."
)


def _cost(text: str) -> float:
    cost = float(text)
    if not 0 <= cost < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text}")
    return cost


_MORE = """\
Every combination of a draft tree and a rule is computed exactly on the same instances: K independent paths,
paths that branch late, fan-outs level by level, drafts without replacement, top drafts and one sampled, trees
of the likeliest prefixes, and trees of fixed ranks or slots. Beside each is the most that any lossless
rule emits with these drafts, or a bound on it.

Costs are in units of one target call on one token. A call with a tree of N drafted tokens in D levels,
drafting included, takes 1 + N * target-cost + D * draft-cost + verify-cost, and combinations are ranked by
tokens in the time of one target call. Without costs they are ranked by tokens per call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments ask for and write the page; return the exit code."""
    asks = "Which draft tree and which rule emit most tokens for a budget of drafted tokens."
    parser = Parser(
        prog="python -m lab.design",
        description=f"{asks}\n\n{_MORE}",
        epilog="example:\n  python -m lab.design toy.json --budget 4 8 --draft-cost 0.1",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for title, options in _OPTIONS.items():
        add(parser.add_argument_group(title), *options)
    parser.set_defaults(run=run)
    return run_command(lambda _: parser, arguments)


_OPTIONS = {
    "what is measured": [
        value("files", "FILE", "instance files", Path, nargs="*"),
        value("--budget", "N", "drafted tokens of a tree", positive, nargs="+", required=True),
        several(
            "--verifier",
            "NAME",
            "a built-in rule, or package.module:object of yours; default: all comparable built-in ones",
        ),
    ],
    "two language models, in place of instance files": [
        value("--prompts", "FILE", "measure after these prompts, one a line", Path),
        *pair_options(depth=4, num_paths=None),
        jobs("prompts"),
    ],
    "costs, in units of one target call on one token": [
        value("--draft-cost", "C", "of a call of the draft: one for each level of the tree", _cost, 0.0),
        value("--target-cost", "C", "of each drafted token in the target call", _cost, 0.0),
        value("--verify-cost", "C", "of verification, for each call", _cost, 0.0),
    ],
    "the report": [
        *report_options("text", "json", "markdown", "csv", "latex"),
        value("--plot", "FILE", "draw tokens per call against the budget", file_to_write),
    ],
}

if __name__ == "__main__":
    sys.exit(main())
