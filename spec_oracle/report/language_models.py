"""Block efficiency of verifiers on a pair of language models as text, Markdown and JSON."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from spec_oracle.efficiency import PairEfficiency
from spec_oracle.report.table import markdown_table, plain, short, text_table

HEAD = ("verifier", "tokens/call", "least", "most", "optimum", "headroom", "largest TV")


def _cells(result: PairEfficiency) -> Iterator[tuple[str, ...]]:
    """Yield a row a verifier."""
    for row in result.summaries():
        # Rounding may leave a headroom of -1e-13 %; adding zero takes the sign from "-0.000".
        headroom = "-" if row.headroom is None else f"{round(100 * row.headroom, 3) + 0.0:.3f} %"
        yield (
            row.verifier,
            *(f"{tokens:.4f}" for tokens in (row.mean, row.least, row.most)),
            "-" if row.optimum is None else f"{row.optimum:.4f}",
            headroom,
            "not enumerated" if row.largest_tv is None else short(row.largest_tv, 2),
        )


def _notes(result: PairEfficiency) -> str:
    """Say how far the proven bounds may lie above the optima, and what is missing."""
    gaps = [row.gap for row in result.rows if row.gap is not None]
    notes = [f"Left out: {reason}." for reason in result.left_out]
    if gaps:
        notes.insert(0, f"Optimum: a proven bound, attained to {short(max(gaps), 2)} tokens on every prompt.")
    return "".join(f"\n{note}\n" for note in notes)


def to_text(result: PairEfficiency) -> str:
    """Return the title, an aligned table, and notes."""
    table = text_table(HEAD, list(_cells(result)), right=range(1, 7))
    return f"{result.title}\n\n{table}\n{_notes(result)}"


def to_markdown(result: PairEfficiency) -> str:
    """Return the title, a Markdown table, and notes."""
    return f"{result.title}\n\n{markdown_table(HEAD, list(_cells(result)))}\n{_notes(result)}"


def to_json(result: PairEfficiency) -> list[dict[str, Any]]:
    """Return the figures, one entry a prompt and verifier."""
    return [
        {
            "prompt": row.prompt,
            "verifier": row.verifier,
            "block_efficiency": plain(row.block_efficiency),
            "total_variation": plain(row.total_variation),
            "optimum": plain(row.optimum),
        }
        for row in result.rows
    ]


FORMATS: dict[str, Callable[[PairEfficiency], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": lambda result: json.dumps(to_json(result), indent=1) + "\n",
}
