"""The difference of two audits as text, Markdown and JSON."""

from collections.abc import Iterator

from spec_oracle.arrays import Json
from spec_oracle.gate.baseline import Effect
from spec_oracle.gate.difference import Difference
from spec_oracle.report.audit_json import header
from spec_oracle.report.table import Table, formats

_ORDER = list(Effect)


def _tables(found: Difference) -> Iterator[Table]:
    """Yield the changes, the worst first, and how many there are."""
    changes = sorted(found.changes, key=lambda change: _ORDER.index(change.effect))
    rows = [(one.subject, one.what, one.effect.value, one.before or "-", one.after or "-") for one in changes]
    effects = [change.effect for change in changes]
    counts = [f"{effects.count(effect)} {effect}" for effect in _ORDER if effect in effects]
    summary = f"{', '.join(counts) or 'nothing changed'}: {found.old} to {found.new}"
    yield Table(("subject", "what", "effect", "before", "after"), rows, below=summary)


def _data(found: Difference) -> dict[str, Json]:
    return {
        **header(),
        "old": found.old,
        "new": found.new,
        "exit_code": found.exit_code,
        "changes": [
            {"subject": one.subject, "what": one.what, "effect": one.effect.value}
            | {"before": one.before or None, "after": one.after or None}
            for one in found.changes
        ],
    }


FORMATS = formats(_tables, _data, "spec-oracle diff")
