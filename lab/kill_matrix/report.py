"""The kill matrix as text, JSON, Markdown and HTML."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from lab.kill_matrix.columns import COLUMNS
from lab.kill_matrix.matrix import SAMPLING_MUST_FIND, KillMatrix, MatrixRow
from lab.specimens.catalogue import MUTANT
from spec_oracle.report.audit_json import header
from spec_oracle.report.numbers import plain, short
from spec_oracle.report.page import MARKS, heat, heat_map, page
from spec_oracle.report.table import markdown_table, text_table
from spec_oracle.version import tool_version

_HEAD = ("specimen", "id", *COLUMNS, "TV", "draws", "first killer")

_LEGEND = (
    "X: the check failed it. Dot: it passed. ?: inconclusive. Blank: not a check of its kind. TV: total "
    "variation of one call of one request, exact where the exact tier could follow, else the largest lower "
    "bound that was found. Draws: requests of all checks together. Ids are those of the catalogue of defects "
    "and lead to the public thread."
)


def summary(matrix: KillMatrix) -> str:
    """Return the lines that a reader wants first."""
    faulty = [row for row in matrix.rows if not row.specimen.is_control]
    controls = [row for row in matrix.rows if row.specimen.is_control]
    return "\n".join(
        [
            f"{len(faulty)} faulty specimens of {_defects(faulty)}; survivors: {_names(matrix.survivors)}",
            f"{len(controls)} lossless controls; killed: {_names(matrix.killed_controls)}",
            f"the naive first-token test misses {len(matrix.missed_by_yardstick)} of {len(faulty)}",
            f"sampling alone misses, of TV {SAMPLING_MUST_FIND} or more: {_names(matrix.missed_by_sampling)}",
            f"expected killers that missed: {_missed(matrix)}",
            _time(matrix),
            f"alpha {matrix.options.alpha:g} for the whole matrix, seed {matrix.options.seed}",
        ]
    )


def _defects(rows: Sequence[MatrixRow]) -> str:
    ids = [row.specimen.catalogue_id for row in rows]
    return (
        f"{len({*ids} - {MUTANT})} defects of the catalogue and {ids.count(MUTANT)} mutants without a number"
    )


def _names(rows: tuple[MatrixRow, ...]) -> str:
    return ", ".join(row.specimen.name for row in rows) or "none"


def _missed(matrix: KillMatrix) -> str:
    missed = [f"{row.specimen.name} ({', '.join(row.missed)})" for row in matrix.rows if row.missed]
    return ", ".join(missed) or "none"


def _time(matrix: KillMatrix) -> str:
    slowest = max(matrix.rows, key=lambda row: row.sampling_seconds)
    return (
        f"{sum(row.seconds for row in matrix.rows):.0f} s of checks, "
        f"{sum(row.sampling_seconds for row in matrix.rows):.0f} s of them sampling; "
        f"longest: {slowest.sampling_seconds:.1f} s of sampling, for {slowest.specimen.name}"
    )


def to_text(matrix: KillMatrix) -> str:
    """Return one line a specimen: X killed, . stands, ? inconclusive, blank not a check of its kind."""
    table = text_table(_HEAD, [_cells(row) for row in matrix.rows], right=(len(_HEAD) - 3, len(_HEAD) - 2))
    return f"{table}\n\n{summary(matrix)}\n"


def _cells(row: MatrixRow) -> tuple[str, ...]:
    return (
        row.specimen.name,
        row.specimen.catalogue_id,
        *(MARKS[row.results[column].status] for column in COLUMNS),
        short(row.total_variation, 2),
        str(row.draws),
        _first_killer(row),
    )


def _first_killer(row: MatrixRow) -> str:
    return row.killers[0] if row.killers else "stands" if row.specimen.is_control else "SURVIVES"


def to_json(matrix: KillMatrix) -> str:
    """Return the matrix as JSON text."""
    data: dict[str, Any] = {
        **header(matrix.options.seed),
        "alpha": matrix.options.alpha,
        "exit_code": matrix.exit_code,
        "survivors": [row.specimen.name for row in matrix.survivors],
        "killed_controls": [row.specimen.name for row in matrix.killed_controls],
        "missed_by_sampling": [row.specimen.name for row in matrix.missed_by_sampling],
        "missed_by_first_token": [row.specimen.name for row in matrix.missed_by_yardstick],
        "specimens": [_row(row) for row in matrix.rows],
    }
    return json.dumps(data, indent=1) + "\n"


def _row(row: MatrixRow) -> dict[str, Any]:
    specimen = row.specimen
    return {
        "specimen": specimen.name,
        "kind": specimen.kind,
        "catalogue_id": specimen.catalogue_id,
        "source": specimen.source,
        "defect": specimen.defect,
        "control": specimen.is_control,
        "expected_killers": list(specimen.killers),
        "killers": list(row.killers),
        "total_variation": plain(row.total_variation),
        "draws": row.draws,
        "seconds": round(row.seconds, 3),
        "sampling_seconds": round(row.sampling_seconds, 3),
        "checks": [
            {
                "name": column,
                "status": result.status.value,
                "alpha": result.alpha,
                "draws": result.draws,
                "seconds": round(row.seconds_by_check.get(column, 0.0), 3),
                "total_variation": plain(result.total_variation),
                "detail": result.detail,
            }
            for column, result in row.results.items()
        ],
    }


def to_markdown(matrix: KillMatrix) -> str:
    """Return the matrix as a page: command line and date, the summary, two tables, what shapes found."""
    faulty = [row for row in matrix.rows if not row.specimen.is_control]
    controls = [row for row in matrix.rows if row.specimen.is_control]
    parts = [
        "# Which check kills which specimen",
        f"Made on {datetime.now(UTC).date()} by `{matrix.command}`, spec-oracle {tool_version()}.",
        "\n".join(f"* {line}" for line in summary(matrix).splitlines()),
        _LEGEND,
        "## Faulty",
        markdown_table(_HEAD, [_linked(row) for row in faulty]),
        "## Lossless controls",
        markdown_table(_HEAD, [_linked(row) for row in controls]),
    ]
    found = [
        (row.specimen.name, row.results["shapes"].detail)
        for row in faulty
        if "shapes" in row.specimen.killers
    ]
    if found:
        parts += ["## Where `shapes` finds it", markdown_table(("specimen", "found"), found)]
    return "\n\n".join(parts) + "\n"


def _linked(row: MatrixRow) -> tuple[str, ...]:
    """Return the cells of a row, its number in the catalogue linked to the public thread."""
    name, catalogue_id, *others = _cells(row)
    source = row.specimen.source
    return name, f"[{catalogue_id}]({source})" if source.startswith("https://") else catalogue_id, *others


def to_html(matrix: KillMatrix) -> str:
    """Return the matrix as one self-contained page: a heat map, details on hover."""
    return page(
        "Which check kills which specimen",
        f"<pre>{escape(summary(matrix))}</pre>\n<p>{escape(_LEGEND)}</p>\n"
        f"{heat_map(_HEAD, map(_html_row, matrix.rows))}",
    )


def _html_row(row: MatrixRow) -> str:
    cells = "".join(map(heat, row.results.values()))
    return (
        f'<tr class="{"right" if row.as_expected else "wrong"}">'
        f'<th title="{escape(row.specimen.defect)}">{escape(row.specimen.name)}</th>'
        f"<td>{escape(row.specimen.catalogue_id)}</td>{cells}"
        f'<td class="number">{short(row.total_variation, 2)}</td><td class="number">{row.draws}</td>'
        f"<td>{_first_killer(row)}</td></tr>"
    )


FORMATS: dict[str, Callable[[KillMatrix], str]] = {
    "text": to_text,
    "json": to_json,
    "markdown": to_markdown,
    "html": to_html,
}
