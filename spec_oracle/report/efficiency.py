"""Block efficiency of verifiers, and the optima that bound it, as text, Markdown, LaTeX, JSON and CSV."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from spec_oracle.efficiency import Efficiency
from spec_oracle.efficiency.figures import is_lossless
from spec_oracle.json_data import Json
from spec_oracle.optimum import Optimum
from spec_oracle.optimum.certificates import Certificate, SinglePathCertificate
from spec_oracle.report.table import Table, formats, percent, plain, short
from spec_oracle.toy import context_text

HEAD = ("verifier", "tokens/call", "TV", "P(accepted = 0, 1, ...)", "optimum", "share", "headroom")


def cells(result: Efficiency) -> tuple[str, ...]:
    """Return the row of a verifier under `HEAD`."""
    return (
        result.label,
        short(result.block_efficiency, 6),
        short(result.total_variation, 2),
        "  ".join(short(mass, 4) for mass in result.accepted_length),
        short(result.optimum, 6),
        percent(result.share, 2),
        percent(None if result.share is None else 1 - result.share, 2),
    )


def _tables(results: Sequence[Efficiency]) -> Iterator[Table]:
    """Yield a table a file."""
    for file in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == file]
        paths = next((result.optima for result in mine if result.tree is None), None)
        trees = next((result for result in mine if result.tree is not None), None)
        titles = []
        if paths is not None:
            titles += [f"{short(paths.single_path, 6)} with one path"]
            titles += [f"{short(paths.multi_path, 6)} with all"]
            titles += [f"{short(paths.block_transport, 6)} with carry-over"]
        if trees is not None:
            titles += [f"{short(trees.optimum, 6)} on draft trees ({trees.tree})"]
        title = f"{file}: optimum {', '.join(titles)}"
        yield Table(HEAD, [cells(result) for result in mine], (1, 2, 4, 5, 6), title)


def _data(results: Sequence[Efficiency]) -> list[dict[str, Json]]:
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
            "tree": None if result.tree is None else str(result.tree),
            "tree_optimum": None if result.tree is None else plain(result.optimum),
            "lossless": is_lossless(result.total_variation),
        }
        for result in results
    ]


FORMATS = formats(_tables, _data)


CheckedOptima: TypeAlias = Mapping[str, Mapping[str, Optimum[SinglePathCertificate | Certificate]]]
"""The optima of each file by name, as `spec_oracle.optimum.checked_optima` returns them."""

_OPTIMUM_HEAD = ("optimum", "tokens/call", "gap", "budgets c(v)")


def _optimum_tables(results: CheckedOptima) -> Iterator[Table]:
    """Yield a table a file: value, gap, and the budgets c(v) that attain it."""
    for file, optima in results.items():
        rows = [
            (name, short(optimum.value, 8), short(optimum.gap, 2), _budgets(optimum))
            for name, optimum in optima.items()
        ]
        yield Table(_OPTIMUM_HEAD, rows, above=file)
    yield Table((), (), below="Every certificate was checked in rationals, without a solver.")


def _budgets(optimum: Optimum[SinglePathCertificate | Certificate], most: int = 8) -> str:
    budgets = list(optimum.certificate.budgets.items())
    shown = "  ".join(f"[{context_text(context)}] {short(budget)}" for context, budget in budgets[:most])
    return shown + ("  ..." if len(budgets) > most else "")


def _optimum_data(results: CheckedOptima) -> list[dict[str, Json]]:
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


OPTIMUM_FORMATS = formats(_optimum_tables, _optimum_data)
