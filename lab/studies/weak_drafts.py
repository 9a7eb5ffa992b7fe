"""Rules of several paths where the draft is weak: cuts of SmolLM2, from two paths to sixteen.

    python -m lab.studies.weak_drafts --output docs/evidence/weak-drafts.md        # needs `make lm`

One core, some minutes; the same figures every time.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from lab.studies.aggregate import TIE, losses
from lab.studies.document import percent
from lab.studies.measure import BALANCED, OURS, Record, enumerated, measured_by_nodes
from lab.studies.toys import Toy
from spec_oracle.commands.options import prompts_of
from spec_oracle.language_models.cuts import cut_instance
from spec_oracle.report.table import markdown_table

TARGET = "smollm2"
DRAFTS = ("smollm2:layers=10", "smollm2:layers=20:temperature=2", "smollm2:temperature=2")
TOP_K, DEPTH = 3, 3
NUM_PATHS = (2, 3, 4, 8, 16)
ENUMERATED = {BALANCED: 3, "greedy_multipath_block": 4}
"""Rules that are neither ours nor walks, and the most paths they are tried with."""

MAX_WALKED = 8
"""The most paths that walks are tried with."""

RIVALS = (BALANCED, "global_resolution", "greedy_multipath_block", "k_seq", "recursive_rejection", "block")
TEXT = """# Weak drafts

Made by `python -m lab.studies.weak_drafts --output docs/evidence/weak-drafts.md`; do not edit.

A good draft of a concentrated target leaves little to choose. The rules differ where the draft is weak: few
layers, or a temperature that is not the target's. The target is {target} at temperature 1; {prompts} prompts
(`docs/prompts.txt`), top-k {top_k}, depth {depth}, cuts as in
[language-models.md](../guide/language-models.md). Shortfalls are from a proven bound on the K-path
optimum, at most {gap:.0e} tokens above what can be attained: means over the prompts, behind them the worst.
The tokens of `{ours}` follow from its divisions, a node at a time, as in the
[study](study-multipath.md#larger-toys); other rules are enumerated where they can be, with a
total variation of at most {variation:.0e}.

{table}

## Where `{ours}` loses

{lost}

Why: it divides every node so that the most of that node's tokens can be accepted, before what follows is
looked at ([study](study-multipath.md#where-our-rule-loses)).
"""


def measured(prompts: list[str]) -> Iterator[Record]:
    """Yield the records of all cuts; `Toy.quality` is the draft, `Toy.concentration` the prompt."""
    for draft in DRAFTS:
        for prompt in prompts:
            tree = cut_instance(prompt, target=TARGET, draft=draft, top_k=TOP_K, depth=DEPTH)
            for paths in NUM_PATHS:
                toy = Toy(tree.with_paths(paths), draft, prompt, 0)
                record = measured_by_nodes(toy, RIVALS if paths <= MAX_WALKED else ("block",))
                tried = [rule for rule, most in ENUMERATED.items() if paths <= most]
                shortfall, variation = enumerated(toy, tried, record.optimum)
                record.shortfall.update(shortfall)
                record.total_variation.update(variation)
                yield record


def table(records: list[Record]) -> str:
    """Return a line for each draft and number of paths."""
    rules = (OURS, *RIVALS)
    rows = []
    for (draft, paths), cuts in groupby(sorted(records, key=_line), key=_line):
        of_line = list(cuts)
        optimum = np.mean([record.optimum for record in of_line])
        cells = (_cell([record.shortfall.get(rule) for record in of_line]) for rule in rules)
        rows.append((f"`{draft}`", str(paths), f"{optimum:.4f}", *cells))
    return markdown_table(("draft", "K", "bound, tokens", *(f"`{rule}`" for rule in rules)), rows)


def _cell(shortfalls: list[float | None]) -> str:
    known = [each for each in shortfalls if each is not None]
    return f"{percent(float(np.mean(known)))} ({percent(max(known))})" if known else "-"


def _line(record: Record) -> tuple[str, int]:
    return record.toy.quality, record.toy.size[2]


def lost(records: list[Record]) -> str:
    """Return on how many cuts another rule is better, and where most."""
    rows = []
    for each in losses(records, OURS, RIVALS):
        tried = sum(each.rival in record.shortfall for record in records)
        toy, gap = each.largest.toy, each.largest.shortfall[OURS] - each.largest.shortfall[each.rival]
        there = f"K = {toy.size[2]}, `{toy.quality}`, {toy.concentration!r}"
        rows.append((f"`{each.rival}`", f"{len(each.records)} of {tried}", percent(gap, 4), there))
    return markdown_table(("better rule", "cuts", "largest gap", "there"), rows) if rows else "Nowhere."


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Multi-path rules on cuts of SmolLM2 with weak drafts.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--prompts", type=Path, default=Path("docs/prompts.txt"), help="a prompt a line")
    arguments = parser.parse_args()
    prompts = prompts_of(arguments.prompts)
    records = list(measured(prompts))
    text = TEXT.format(
        target=TARGET,
        prompts=len(prompts),
        top_k=TOP_K,
        depth=DEPTH,
        gap=max(TIE, *(record.gap for record in records)),
        table=table(records),
        variation=max(max(record.total_variation.values()) for record in records),
        ours=OURS,
        lost=lost(records),
    )
    arguments.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
