"""The difference of two audits as text, Markdown and JSON."""

import json
from collections.abc import Callable

from spec_oracle.gate.difference import Difference
from spec_oracle.gate.tokens import Effect
from spec_oracle.report.audit_json import header
from spec_oracle.report.table import markdown_table, text_table

_HEAD = ("subject", "what", "effect", "before", "after")


def _rows(found: Difference) -> list[tuple[str, ...]]:
    order = list(Effect)
    changes = sorted(found.changes, key=lambda change: order.index(change.effect))
    return [
        (change.subject, change.what, change.effect.value, change.before or "-", change.after or "-")
        for change in changes
    ]


def _summary(found: Difference) -> str:
    effects = [change.effect for change in found.changes]
    counts = [f"{effects.count(effect)} {effect}" for effect in Effect if effect in effects]
    return f"{', '.join(counts) or 'nothing changed'}: {found.old} to {found.new}"


def to_text(found: Difference) -> str:
    """Return the changes for a terminal, the worst first."""
    table = f"{text_table(_HEAD, _rows(found))}\n\n" if found.changes else ""
    return f"{table}{_summary(found)}\n"


def to_markdown(found: Difference) -> str:
    """Return the changes as Markdown, for a comment on a pull request."""
    table = f"{markdown_table(_HEAD, _rows(found))}\n\n" if found.changes else ""
    return f"# spec-oracle diff\n\n{table}{_summary(found)}\n"


def to_json(found: Difference) -> str:
    """Return the changes as JSON text."""
    data = {
        **header(),
        "old": found.old,
        "new": found.new,
        "exit_code": found.exit_code,
        "changes": [
            {
                "subject": change.subject,
                "what": change.what,
                "effect": change.effect.value,
                "before": change.before or None,
                "after": change.after or None,
            }
            for change in found.changes
        ],
    }
    return json.dumps(data, indent=1) + "\n"


FORMATS: dict[str, Callable[[Difference], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": to_json,
}
