"""The optima of an instance and what proves them, as text, Markdown and JSON."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from spec_oracle.json_data import Json
from spec_oracle.optimum import Optimum
from spec_oracle.optimum.certificates import Certificate, SinglePathCertificate
from spec_oracle.report.table import Table, formats, plain, short
from spec_oracle.toy import context_text

CheckedOptima: TypeAlias = Mapping[str, Mapping[str, Optimum[SinglePathCertificate | Certificate]]]
"""The optima of each file by name, as `spec_oracle.optimum.checked_optima` returns them."""

_HEAD = ("optimum", "tokens/call", "gap", "budgets c(v)")


def _tables(results: CheckedOptima) -> Iterator[Table]:
    """Yield a table a file: value, gap, and the budgets c(v) that attain it."""
    for file, optima in results.items():
        rows = [
            (name, short(optimum.value, 8), short(optimum.gap, 2), _budgets(optimum))
            for name, optimum in optima.items()
        ]
        yield Table(_HEAD, rows, above=file)
    yield Table((), (), below="Every certificate was checked in rationals, without a solver.")


def _budgets(optimum: Optimum[SinglePathCertificate | Certificate], most: int = 8) -> str:
    budgets = list(optimum.certificate.budgets.items())
    shown = "  ".join(f"[{context_text(context)}] {short(budget)}" for context, budget in budgets[:most])
    return shown + ("  ..." if len(budgets) > most else "")


def _data(results: CheckedOptima) -> list[dict[str, Json]]:
    return [
        {
            "file": file,
            "optimum": name,
            "value": plain(optimum.value),
            "gap": plain(optimum.gap),
            "budgets": {context_text(at): plain(c) for at, c in optimum.certificate.budgets.items()},
        }
        for file, optima in results.items()
        for name, optimum in optima.items()
    ]


FORMATS = formats(_tables, _data)
