"""The kill matrix as text, JSON, Markdown and HTML."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lab.kill_matrix.columns import COLUMNS
from lab.kill_matrix.matrix import SAMPLING_MUST_FIND, KillMatrix, MatrixRow
from lab.specimens.catalogue import MUTANT
from lab.specimens.survivors_page import survivors_table
from spec_oracle.audit.results import UNTRIED, Status
from spec_oracle.installed import tool_version
from spec_oracle.report.audit_html import environment, page
from spec_oracle.report.audit_json import header
from spec_oracle.report.table import markdown_table, plain, short, text_table

_HEAD = ("specimen", "id", *COLUMNS, "TV", "samples", "detected by")

MARKS = {Status.FAILED: "X", Status.PASSED: ".", Status.INCONCLUSIVE: "?", **dict.fromkeys(UNTRIED, "")}

_LEGEND = (
    "X: the check failed it. Dot: it passed. ?: inconclusive. Blank: not run. TV: total "
    "variation of one call of one request, exact where the exact tier could trace it, else the largest lower "
    "bound that was found. Samples: requests sampled by all checks together. Ids are those of the catalogue "
    "of defects and lead to the public thread."
)

_SURVIVORS = (
    "Defects that an audit at its defaults does not find: each stands for a limit, see [what an audit does "
    "not see](../how-it-works/what-it-does-not-see.md). The checks here have larger budgets, and may find "
    "one."
)


def summary(matrix: KillMatrix) -> str:
    """Return the lines that a reader wants first."""
    faulty, rows = matrix.faulty, matrix.rows
    ids = [row.specimen.catalogue_id for row in faulty]
    slowest = max(rows, key=lambda row: row.sampling_seconds)
    missed = [f"{row.specimen.name} ({', '.join(row.missed)})" for row in rows if row.missed]
    return f"""\
{len(faulty)} faulty specimens of {len({*ids} - {MUTANT})} defects of the catalogue and {ids.count(MUTANT)} \
mutants without a number; not detected: {_names(matrix.survivors)}
on record as survivors of an audit at its defaults: {_names(matrix.surviving)}
{len(matrix.controls)} lossless controls; failed by a check: {_names(matrix.killed_controls)}
the naive first-token test misses {len(matrix.missed_by_yardstick)} of {len(faulty)}
sampling alone misses, of TV {SAMPLING_MUST_FIND} or more: {_names(matrix.missed_by_sampling)}
expected checks that missed: {", ".join(missed) or "none"}
{sum(row.seconds for row in rows):.0f} s of checks, \
{sum(row.sampling_seconds for row in rows):.0f} s of them sampling; \
longest: {slowest.sampling_seconds:.1f} s of sampling, for {slowest.specimen.name}
alpha {matrix.alpha:g} for the whole matrix, seed {matrix.seed}"""


def _names(rows: tuple[MatrixRow, ...]) -> str:
    return ", ".join(row.specimen.name for row in rows) or "none"


def to_text(matrix: KillMatrix) -> str:
    """Return one line a specimen: X detected, . passes, ? inconclusive, blank not run."""
    table = text_table(_HEAD, [_cells(row) for row in matrix.rows], right=(len(_HEAD) - 3, len(_HEAD) - 2))
    return f"{table}\n\n{summary(matrix)}\n"


def _cells(row: MatrixRow) -> tuple[str, ...]:
    missed = "NOT DETECTED" if row.specimen.detected_by else "survives" if row.specimen.survives else "passes"
    first = row.detected_by[0] if row.detected_by else missed
    return (
        row.specimen.name,
        row.specimen.catalogue_id,
        *(MARKS[row.results[column].status] for column in COLUMNS),
        short(row.total_variation, 2),
        str(row.draws),
        first,
    )


def to_json(matrix: KillMatrix) -> str:
    """Return the matrix as JSON text."""
    data: dict[str, Any] = {
        **header(matrix.seed),
        "alpha": matrix.alpha,
        "exit_code": matrix.exit_code,
        "survivors_on_record": [row.specimen.name for row in matrix.surviving],
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
        "expected_checks": list(specimen.detected_by),
        "detected_by": list(row.detected_by),
        "total_variation": plain(row.total_variation),
        "draws": row.draws,
        "seconds": round(row.seconds, 3),
        "sampling_seconds": round(row.sampling_seconds, 3),
        "checks": [
            {
                "name": column,
                "status": result.status.value,
                "alpha": result.measured.alpha,
                "draws": result.measured.draws,
                "seconds": round(row.seconds_by_check.get(column, 0.0), 3),
                "total_variation": plain(result.measured.total_variation),
                "detail": result.detail,
            }
            for column, result in row.results.items()
        ],
    }


def to_markdown(matrix: KillMatrix) -> str:
    """Return the matrix as a page: command line and date, the summary, two tables, what shapes found."""
    parts = [
        "# Which check detects which specimen",
        f"Made on {datetime.now(UTC).date()} by `{matrix.command}`, spec-oracle {tool_version()}.",
        "\n".join(f"* {line}" for line in summary(matrix).splitlines()),
        _LEGEND,
        "## Faulty",
        markdown_table(_HEAD, [_linked(row) for row in matrix.faulty]),
        "## Lossless controls",
        markdown_table(_HEAD, [_linked(row) for row in matrix.controls]),
    ]
    if matrix.surviving:
        known = survivors_table(row.specimen for row in matrix.surviving).rstrip("\n")
        checked = markdown_table(_HEAD, [_linked(row) for row in matrix.surviving])
        parts += ["## Survivors", _SURVIVORS, known, checked]
    by_shapes = [row for row in matrix.faulty if "shapes" in row.specimen.detected_by]
    if found := [(row.specimen.name, row.results["shapes"].detail) for row in by_shapes]:
        parts += ["## Where `shapes` finds it", markdown_table(("specimen", "found"), found)]
    return "\n\n".join(parts) + "\n"


def _linked(row: MatrixRow) -> tuple[str, ...]:
    """Return the cells of a row, its number in the catalogue linked to the public thread."""
    name, catalogue_id, *others = _cells(row)
    source = row.specimen.source
    return name, f"[{catalogue_id}]({source})" if source.startswith("https://") else catalogue_id, *others


_PAGE = """\
{% extends "page.html" %}
{% import "parts.html" as parts %}
{% block body %}
<pre>{{ summary }}</pre>
<p>{{ legend }}</p>
{% call parts.heat_map(head) %}
{% for row, name, id, tv, draws, first in rows %}
<tr class="{{ "right" if row.as_expected else "wrong" }}">
<th title="{{ row.specimen.defect }}">{{ name }}</th><td>{{ id }}</td>
{% for check in row.results.values() %}{{ parts.heat(check) }}{% endfor %}
<td class="number">{{ tv }}</td><td class="number">{{ draws }}</td><td>{{ first }}</td></tr>
{% endfor %}
{% endcall %}
{% endblock %}
"""


def to_html(matrix: KillMatrix) -> str:
    """Return the matrix as one self-contained page: a heat map, details on hover."""
    cells = ((row, _cells(row)) for row in matrix.rows)
    return page(
        environment().from_string(_PAGE),
        title="Which check detects which specimen",
        summary=summary(matrix),
        legend=_LEGEND.replace("X:", "✗:").replace("Dot:", "●:"),
        head=_HEAD,
        rows=[(row, *row_cells[:2], *row_cells[-3:]) for row, row_cells in cells],
    )


FORMATS: dict[str, Callable[[KillMatrix], str]] = {
    "text": to_text,
    "json": to_json,
    "markdown": to_markdown,
    "html": to_html,
}
