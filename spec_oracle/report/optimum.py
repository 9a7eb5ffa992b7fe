"""The optima of an instance and what proves them, as text and JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spec_oracle.optimum import (
    Optimum,
    block_transport_optimum,
    check_certificate,
    multi_path_optimum,
    single_path_optimum,
)
from spec_oracle.report.numbers import plain, short
from spec_oracle.report.table import text_table
from spec_oracle.toy import Instance, context_text


@dataclass(frozen=True)
class CheckedOptima:
    """The optima of one instance by name; every certificate was checked anew, without a solver."""

    file: str
    by_name: dict[str, Optimum[Any]]


def optima(file: str, instance: Instance, *, exact: bool = False) -> CheckedOptima:
    """Compute the optima and check their certificates; raises `CertificateError` if one does not hold."""
    found: dict[str, Optimum[Any]] = {
        "single_path": single_path_optimum(instance, exact=exact),
        "multi_path": multi_path_optimum(instance, exact=exact),
        "block_transport": block_transport_optimum(instance, exact=exact),
    }
    for optimum in found.values():
        check_certificate(instance, optimum.certificate)
    return CheckedOptima(file, found)


def to_text(results: Iterable[CheckedOptima]) -> str:
    """Return a table a file: value, gap, and the budgets c(v) that attain it."""
    parts = []
    for result in results:
        rows = [
            (name, short(optimum.value, 8), short(optimum.gap, 2), _budgets(optimum))
            for name, optimum in result.by_name.items()
        ]
        parts.append(
            f"{result.file}\n\n" + text_table(("optimum", "tokens/call", "gap", "budgets c(v)"), rows)
        )
    return "\n\n".join(parts) + "\n\nEvery certificate was checked in rationals, without a solver.\n"


def _budgets(optimum: Optimum[Any], most: int = 8) -> str:
    budgets = list(optimum.certificate.budgets.items())
    shown = "  ".join(f"[{context_text(context)}] {short(budget)}" for context, budget in budgets[:most])
    return shown + ("  ..." if len(budgets) > most else "")


def to_json(results: Iterable[CheckedOptima]) -> list[dict[str, Any]]:
    """Return values and budgets as JSON data."""
    return [
        {
            "file": result.file,
            "optimum": name,
            "value": plain(optimum.value),
            "gap": plain(optimum.gap),
            "budgets": {
                context_text(context): plain(budget)
                for context, budget in optimum.certificate.budgets.items()
            },
        }
        for result in results
        for name, optimum in result.by_name.items()
    ]


FORMATS: dict[str, Callable[[Sequence[CheckedOptima]], str]] = {
    "text": to_text,
    "json": lambda results: json.dumps(to_json(results), indent=1) + "\n",
}
