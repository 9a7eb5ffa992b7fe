"""What it costs a rule to see only the rows along its drafts: families of toys with fixed seeds.

    python -m lab.studies.local_rules --output docs/evidence/local-rules.md

One core, a few minutes; the same figures every time.
"""

import argparse
import sys
from pathlib import Path

from lab.claims.families import rearranged
from lab.claims.local_optimum import local_optimum
from spec_oracle.optimum import proven_bound
from spec_oracle.report.table import markdown_table
from spec_oracle.toy import Instance

SIZES = ((2, 2, 2), (2, 3, 2), (2, 8, 2), (3, 2, 2), (3, 2, 3), (3, 3, 2), (4, 2, 2))
"""V, K, and how many rows may follow a first token."""

FAMILIES = 12
SEEN = 1e-8
"""A cost that is more than rounding, in tokens."""

HEAD = ("V", "K", "second rows", "instances", "families that cost", "mean cost", "largest cost")
TEXT = """# Rules that see only the rows along their drafts

An engine hands a verifier the rows along its drafts and no others. The optimum of an instance knows them all.
Here the first rows of an instance stay as they are, and after every first token any of a few second rows may
come (L = 2): a rule that is lossless on all of these instances cannot know the rows after tokens that were
not drafted. `local_optimum` is the most that any such rule reaches in the mean, proven in rationals. Its
distance from the mean of the K-path optima is the *cost*.

{table}

{families} families a line: `Instance.random(V, 2, num_paths=K, seed=0..{last}).rounded(64)`, rearranged. So
the K-path optimum, which is easy to compute, is a fair yardstick for rules that can be served. Written by
`python -m lab.studies.local_rules`.
"""


def cost(instance: Instance, options: int) -> float:
    """Return the share of the mean K-path optimum that local rules must leave, over a family of instances."""
    family = rearranged(instance, options)
    best = sum(proven_bound(member).attained for member in family) / len(family)
    local = local_optimum(family)
    return 1 - (local.value + float(local.gap)) / best


def row(vocab: int, paths: int, options: int) -> tuple[str, ...]:
    """Return one line of the table."""
    toys = (Instance.random(vocab, 2, num_paths=paths, seed=seed).rounded(64) for seed in range(FAMILIES))
    costs = [cost(toy, options) for toy in toys]
    seen = sum(share > SEEN for share in costs)
    figures = (f"{100 * max(share, 0):.4f} %" for share in (sum(costs) / FAMILIES, max(costs)))
    return (str(vocab), str(paths), str(options), str(options**vocab), f"{seen} of {FAMILIES}", *figures)


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description="What it costs to see only the rows along the drafts.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    table = markdown_table(HEAD, [row(*size) for size in SIZES])
    text = TEXT.format(table=table, families=FAMILIES, last=FAMILIES - 1)
    parser.parse_args().output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
