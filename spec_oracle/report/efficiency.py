"""Block efficiency of verifiers beside what any verifier could reach, as text, Markdown and JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spec_oracle.efficiency import Efficiency
from spec_oracle.report.table import markdown_table, plain, short, text_table


def to_json(results: Iterable[Efficiency]) -> list[dict[str, Any]]:
    """Return the figures as JSON data."""
    return [
        {
            "file": result.file,
            "verifier": result.verifier,
            "block_efficiency": plain(result.block_efficiency),
            "total_variation": plain(result.total_variation),
            "accepted_length": [plain(mass) for mass in result.accepted_length],
            "single_path_optimum": plain(result.optima.single_path),
            "multi_path_optimum": plain(result.optima.multi_path),
            "block_transport_optimum": plain(result.optima.block_transport),
        }
        for result in results
    ]


HEAD = ("verifier", "tokens/call", "TV", "P(accepted = 0, 1, ...)", "optimum", "share", "headroom")


def cells(result: Efficiency) -> tuple[str, ...]:
    """Return the row of a table under `HEAD`."""
    share = result.share
    return (
        result.verifier,
        short(result.block_efficiency, 6),
        short(result.total_variation, 2),
        "  ".join(short(mass, 4) for mass in result.accepted_length),
        short(result.optimum, 6),
        "-" if share is None else f"{100 * float(share):.2f} %",
        "-" if share is None else f"{100 * (1 - float(share)):.2f} %",
    )


def to_text(results: Sequence[Efficiency]) -> str:
    """Return a table a file."""
    parts = []
    for file in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == file]
        best = mine[0].optima
        title = (
            f"{file}: optimum {short(best.single_path, 6)} with one path, "
            f"{short(best.multi_path, 6)} with all, {short(best.block_transport, 6)} with carry-over"
        )
        parts.append(
            title + "\n\n" + text_table(HEAD, [cells(result) for result in mine], right=(1, 2, 4, 5, 6))
        )
    return "\n\n".join(parts) + "\n"


def to_markdown(results: Sequence[Efficiency]) -> str:
    """Return one Markdown table for all files."""
    return markdown_table(("file", *HEAD), [(result.file, *cells(result)) for result in results]) + "\n"


FORMATS: dict[str, Callable[[Sequence[Efficiency]], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": lambda results: json.dumps(to_json(results), indent=1) + "\n",
}
