"""One self-contained page: no network, no script, light and dark, from a telephone to a desk."""

from collections.abc import Iterable
from html import escape

from spec_oracle.audit import CheckResult, Status
from spec_oracle.audit.results import UNTRIED
from spec_oracle.report.audit_junit import NO_XML

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1e23; --muted: #5b6472;
  --line: #d9dde3; --good: #176b2c; --bad: #b3261e; --open: #8a5a00; --found: #4269d0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --card: #1d2128; --ink: #e7eaee;
  --muted: #a0a9b5; --line: #363c46; --good: #6fd08a; --bad: #ff8a80; --open: #f0bf5c; --found: #8aa5f0; } }
* { box-sizing: border-box; }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 76rem; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 0; } h3 { font-size: 1rem; }
h3 .muted { font-weight: 400; }
p { margin: .4rem 0; } .muted, figcaption { color: var(--muted); } code, pre { font: 13px/1.5 ui-monospace,
  monospace; } pre { margin: .5rem 0; overflow-x: auto; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
th, td:not(.wide) { overflow-wrap: normal; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.lossless, .passed { color: var(--good); } .lossy, .failed { color: var(--bad); font-weight: 600; }
.inconclusive, .declared-lossy, .not-run { color: var(--open); }
.not-applicable, .skipped { color: var(--muted); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 1.2rem 0;
  padding: 1rem; } figure { margin: 0; } svg { display: block; max-width: 100%; height: auto; }
svg .muted { fill: var(--muted); }
.charts { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(125px, 1fr)); }
.tree svg { width: 100%; max-width: 34rem; } .bar { background: var(--line); border-radius: 3px;
  height: .6rem; margin-top: .3rem; min-width: 5rem; } .bar i { background: var(--found);
  border-radius: 3px; display: block; height: 100%; }
.coverage { display: grid; gap: .3rem .8rem; grid-template-columns: max-content 1fr; margin: 0; }
.coverage dt { color: var(--muted); } .coverage dd { display: flex; flex-wrap: wrap; gap: .2rem; margin: 0; }
.coverage span { border: 1px solid currentcolor; border-radius: 3px; font-size: 12px; padding: 0 .3rem; }
.coverage .proven { background: color-mix(in srgb, var(--good) 12%, transparent); color: var(--good); }
.coverage .wrong { background: var(--bad); color: var(--card); }
.coverage .drawn { color: var(--found); } .coverage .not-followed { color: var(--open); }
.coverage .untried { border-style: dashed; color: var(--muted); }
.matrix { overflow-x: auto; } .matrix th, .matrix td { padding: .15rem .4rem; font-size: 13px; }
.matrix thead th { vertical-align: bottom; white-space: nowrap; writing-mode: vertical-rl; }
.matrix tbody th, .matrix thead th:first-child { background: var(--paper); left: 0; max-width: 11rem;
  overflow: hidden; position: sticky; text-overflow: ellipsis; white-space: nowrap;
  writing-mode: horizontal-tb; } .matrix td { text-align: center; }
.matrix td.failed { background: var(--bad); color: var(--paper); }
.matrix td.passed { background: color-mix(in srgb, var(--good) 18%, var(--paper)); }
.matrix td.inconclusive { background: color-mix(in srgb, var(--open) 30%, var(--paper)); }
.matrix tr.wrong th { color: var(--bad); }
@media (max-width: 720px) { table.stacked thead { display: none; } table.stacked tr { display: block;
  border-bottom: 1px solid var(--line); padding: .5rem 0; } table.stacked td { border: 0; display: flex;
  gap: 1rem; justify-content: space-between; padding: .1rem 0; text-align: right; }
  table.stacked td::before { color: var(--muted); content: attr(data-label); white-space: nowrap; }
  .coverage { grid-template-columns: 1fr; }
  table.stacked td.wide { display: block; text-align: left; } table.stacked td.wide::before { content: none; }
  table.stacked td:first-child { font-weight: 600; } table.stacked td:first-child::before { content: none; } }
"""

MARKS = {Status.FAILED: "X", Status.PASSED: ".", Status.INCONCLUSIVE: "?", **dict.fromkeys(UNTRIED, "")}


def page(title: str, body: str) -> str:
    """Return the document around a body of HTML; ``title`` is text."""
    body = NO_XML.sub("\ufffd", body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}</style></head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def heat_map(head: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table that scrolls sideways; ``head`` is text, ``rows`` have a ``th`` and then cells."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "\n".join(rows)
    return (
        f'<div class="matrix"><table><thead><tr>{titles}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )


def heat(check: CheckResult | None) -> str:
    """Return the cell of a check: its mark in its colour, details on hover."""
    if check is None:
        return "<td></td>"
    return f'<td class="{check.status}" title="{escape(check.detail)}">{MARKS[check.status]}</td>'


def cell(label: str, text: str, kind: str = "") -> str:
    """Return a cell of a table that stacks on narrow screens, where it bears its label; ``text`` is text."""
    return f'<td class="{escape(kind)}" data-label="{escape(label)}">{escape(text)}</td>'
