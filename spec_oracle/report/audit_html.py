"""An audit as one self-contained HTML page."""

from html import escape

from spec_oracle.audit import AuditReport
from spec_oracle.report.audit_text import HEAD, audit_rows, audit_to_text

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; }
th { text-align: left; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
.lossless { color: #176b2c; } .lossy { color: #b3261e; font-weight: 600; }
.inconclusive, .declared-lossy { color: #8a5a00; } pre { background: #f6f6f6; padding: 1rem; overflow: auto; }
"""


def audit_to_html(report: AuditReport) -> str:
    """Return the page: the table, then the text report with its counterexamples."""
    head = "".join(f"<th>{escape(title)}</th>" for title in HEAD)
    body = "\n".join(_row(cells) for cells in audit_rows(report))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>spec-oracle audit</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>spec-oracle audit</h1>\n"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n"
        f"<h2>Details</h2>\n<pre>{escape(audit_to_text(report))}</pre>\n</body></html>\n"
    )


def _row(cells: tuple[str, ...]) -> str:
    name, verdict, evidence, *numbers = cells
    return (
        f'<tr><td>{escape(name)}</td><td class="{escape(verdict)}">{escape(verdict)}</td>'
        f"<td>{escape(evidence)}</td>"
        + "".join(f'<td class="number">{escape(number)}</td>' for number in numbers)
        + "</tr>"
    )
