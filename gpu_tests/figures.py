"""The table at the end of a run, as text, Markdown and JSON: yields, costs, what was found."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Figures:
    """What the tests recorded, in the order in which they ended; written after each of them."""

    head: dict[str, Any] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    planted: list[dict[str, Any]] = field(default_factory=list)

    def add(self, properties: list[tuple[str, Any]]) -> bool:
        """Take over what a test recorded; return whether there was something."""
        known = [(name, value) for name, value in properties if hasattr(self, name)]
        for name, value in known:
            if name in ("head", "texts"):
                getattr(self, name).update(value)
            else:
                getattr(self, name).append(value)
        return bool(known)

    def data(self) -> dict[str, Any]:
        return {**self.head, "rules": self.rules, "texts": self.texts, "planted": self.planted}

    def write(self, stem: Path) -> None:
        """Write ``stem``.json and ``stem``.md."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".json").write_text(json.dumps(self.data(), indent=1) + "\n", encoding="utf-8")
        stem.with_suffix(".md").write_text("\n".join(markdown(self.data())) + "\n", encoding="utf-8")


HEADS = (
    *("rule", "tokens/call", "expected", "optimum", "verification ms", "of the call", "call ms"),
    *("rows GB", "peak GB", "detects TV", "detects tokens/call", "tokens judged", "found"),
)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    shares = (None if row["share"] is None else f"{100 * row['share']:.0f} %",)
    return (
        row["rule"],
        *(_shown(row[name], 3) for name in ("tokens_per_call", "expected", "optimum")),
        _shown(row["verification_ms"], 1),
        *(one or "-" for one in shares),
        _shown(row["call_ms"], 1),
        *(_shown(row[name], 2) for name in ("rows_gb", "peak_gb")),
        *(_shown(row[name], 3) for name in ("detected_tv", "detected_length")),
        f"{row['tokens']:,}",
        "WRONG" if row["problems"] else "right",
    )


def _lines(data: dict[str, Any]) -> list[str]:
    """Return what holds for all rows: hardware, versions, sizes, rounding."""
    if "hardware" not in data:
        return []
    rounding = data["rounding"]
    versions = f"Python {data['python']}, torch {data['torch']}, transformers {data['transformers']}"
    sizes = f"V = {data['vocab_size']:,}, L = {data['draft_length']}"
    parameters = f"{data['parameters'] / 1e9:.2g} billion parameters"
    apart = (
        f"{rounding['rows']:.1g} in total variation on average over a text, {rounding['largest']:.1g} at most"
    )
    return [
        f"{data['hardware']}, {versions}.",
        f"{data['pair']}: {parameters}, {sizes}, network and rows in {data['dtype']}.",
        f"Rows of two correct passes differ by {apart} ({rounding['places']:,} places measured).",
        f"With the sums of rounded rows, rows are taken to be right to {rounding['doubt']:.1g}.",
    ]


def markdown(data: dict[str, Any]) -> list[str]:
    """Return the lines of the tables in Markdown."""
    lines = _lines(data)
    if data["rules"]:
        lines += ["", "| " + " | ".join(HEADS) + " |", "| --- |" + " --: |" * (len(HEADS) - 2) + " --- |"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in data["rules"]]
    if data["planted"]:
        lines += [
            "",
            "| planted defect | found by | log e-value | tokens/call |",
            "| --- | --- | --: | --: |",
        ]
        for one in data["planted"]:
            found = "; ".join(one["found"]) or "NOT FOUND"
            lines.append(f"| {one['defect']} | {found} | {one['log_e']:.0f} | {one['tokens_per_call']:.3f} |")
    if data["texts"]:
        kinds = list(next(iter(data["texts"].values())))
        lines += ["", "| rule | " + " | ".join(kinds) + " |", "| --- |" + " --- |" * len(kinds)]
        lines += ["| " + " | ".join([rule, *said.values()]) + " |" for rule, said in data["texts"].items()]
    return lines


def text(data: dict[str, Any]) -> list[str]:
    """Return the lines of the table for a terminal."""
    table = [HEADS, *map(_cells, data["rules"])]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = _lines(data)
    for cells in table:
        first, *others = zip(cells, widths, strict=True)
        lines.append("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]))
    for one in data["planted"]:
        lines.append(f"planted: {one['defect']}: {'; '.join(one['found']) or 'NOT FOUND'}")
    return lines


def _shown(number: float | None, digits: int) -> str:
    return "-" if number is None else f"{number:.{digits}f}"
