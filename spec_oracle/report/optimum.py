"""The optima of an instance and what proves them, as text and JSON."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from spec_oracle.optimum import Optimum
from spec_oracle.report.table import plain, short, text_table
from spec_oracle.toy import context_text

CheckedOptima: TypeAlias = Mapping[str, Mapping[str, Optimum[Any]]]
"""The optima of each file by name, as `spec_oracle.optimum.checked_optima` returns them."""


def to_text(results: CheckedOptima) -> str:
    """Return a table a file: value, gap, and the budgets c(v) that attain it."""
    parts = []
    for file, optima in results.items():
        rows = [
            (name, short(optimum.value, 8), short(optimum.gap, 2), _budgets(optimum))
            for name, optimum in optima.items()
        ]
        parts.append(f"{file}\n\n" + text_table(("optimum", "tokens/call", "gap", "budgets c(v)"), rows))
    return "\n\n".join(parts) + "\n\nEvery certificate was checked in rationals, without a solver.\n"


def _budgets(optimum: Optimum[Any], most: int = 8) -> str:
    budgets = list(optimum.certificate.budgets.items())
    shown = "  ".join(f"[{context_text(context)}] {short(budget)}" for context, budget in budgets[:most])
    return shown + ("  ..." if len(budgets) > most else "")


def to_json(results: CheckedOptima) -> list[dict[str, Any]]:
    """Return values and budgets as JSON data."""
    return [
        {
            "file": file,
            "optimum": name,
            "value": plain(optimum.value),
            "gap": plain(optimum.gap),
            "budgets": {
                context_text(context): plain(budget)
                for context, budget in optimum.certificate.budgets.items()
            },
        }
        for file, optima in results.items()
        for name, optimum in optima.items()
    ]


FORMATS: dict[str, Callable[[CheckedOptima], str]] = {
    "text": to_text,
    "json": lambda results: json.dumps(to_json(results), indent=1) + "\n",
}
