"""Block efficiency of verifiers on a pair of language models as text, Markdown and JSON."""

from collections.abc import Iterator
from typing import Any

from spec_oracle.efficiency.figures import is_lossless, marked
from spec_oracle.language_models.efficiency import PairEfficiency
from spec_oracle.report.table import Table, formats, percent, plain, short

HEAD = ("verifier", "tokens/call", "least", "most", "optimum", "headroom", "largest TV")


def _cells(result: PairEfficiency) -> Iterator[tuple[str, ...]]:
    """Yield a row a verifier."""
    for row in result.summaries():
        yield (
            marked(row.verifier, row.largest_tv),
            *(f"{tokens:.4f}" for tokens in (row.mean, row.least, row.most)),
            "-" if row.optimum is None else f"{row.optimum:.4f}",
            percent(row.headroom, 3),
            "not enumerated" if row.largest_tv is None else short(row.largest_tv, 2),
        )


def _tables(result: PairEfficiency) -> Iterator[Table]:
    """Yield the table; notes say how far the proven bounds may exceed the optima, and what is missing."""
    gaps = [row.gap for row in result.rows if row.gap is not None]
    notes = [f"Left out: {reason}." for reason in result.left_out]
    if gaps:
        notes.insert(0, f"Optimum: a proven bound, attained to {short(max(gaps), 2)} tokens on every prompt.")
    yield Table(HEAD, list(_cells(result)), range(1, 7), result.title, "\n\n".join(notes))


def _data(result: PairEfficiency) -> list[dict[str, Any]]:
    return [
        {
            "prompt": row.prompt,
            "verifier": row.verifier,
            "block_efficiency": plain(row.block_efficiency),
            "total_variation": plain(row.total_variation),
            "optimum": plain(row.optimum),
            "lossless": None if row.total_variation is None else is_lossless(row.total_variation),
        }
        for row in result.rows
    ]


FORMATS = formats(_tables, _data)
