"""An audit as JSON; the schema is docs/reference/json-schema.md."""

from dataclasses import asdict

from spec_oracle.arrays import Json
from spec_oracle.audit.reports import (
    SCHEMA_VERSION,
    AuditReport,
    Counterexample,
    InstanceFigures,
    SubjectReport,
)
from spec_oracle.audit.results import UNTRIED, CheckResult, TextCounterexample
from spec_oracle.installed import tool_version
from spec_oracle.report.table import plain


def header(seed: int | None = None) -> dict[str, Json]:
    """Return the fields that every JSON result begins with."""
    return {"schema_version": SCHEMA_VERSION, "tool_version": tool_version(), "seed": seed}


def audit_to_json(report: AuditReport) -> dict[str, Json]:
    """Return the audit as JSON data."""
    return {
        **header(report.seed),
        "alpha": report.alpha,
        "exit_code": report.exit_code,
        "seconds": round(report.seconds, 3),
        "subjects": [_subject(subject) for subject in report.subjects],
    }


def _subject(report: SubjectReport) -> dict[str, Json]:
    numbers = "total_variation smallest_detectable_tv alpha block_efficiency optimum headroom"
    return {
        "subject": report.subject,
        "kind": report.kind,
        "version": report.code.version,
        "rule": report.rule,
        "rule_identified": report.rule_identified,
        "verdict": report.verdict,
        "evidence": report.evidence,
        "scope": (*filter(None, [report.reach.sentence]), *report.remarks.scope),
        "coverage": report.remarks.coverage,
        **{name: plain(getattr(report, name)) for name in numbers.split()},
        "instances": [_figures(figures) for figures in report.figures],
        "checks": [_check(check) for check in report.checks],
        "counterexample": _counterexample(report.counterexample),
        "place": report.code.place or None,
        "notes": report.remarks.notes,
        "output": report.code.output,
        "error": report.error or None,
        "as_on": report.as_on or None,
    }


def _figures(figures: InstanceFigures) -> dict[str, Json]:
    return {
        "instance": figures.name,
        "digest": figures.digest,
        "block_efficiency": figures.block_efficiency,
        "optimum": figures.optimum,
        "accepted_length": figures.accepted_length,
        "accepted_length_of_rule": figures.of_rule or None,
    }


def _check(check: CheckResult) -> dict[str, Json]:
    is_untried = check.status in UNTRIED
    return {
        "name": check.name,
        "status": check.status,
        "how": check.word,
        "detail": None if is_untried else check.detail,
        "reason": check.detail if is_untried else None,
        "known": check.known or None,
        "again": _again(check),
        "seconds": round(check.seconds, 3),
    }


def _again(check: CheckResult) -> dict[str, Json] | None:
    if check.shown.inputs is None:
        return None
    names = ("size", "says", "file", "not_saved", "reproduce")
    return {name: getattr(check.shown.inputs, name) or None for name in names}


def _counterexample(found: Counterexample | TextCounterexample | None) -> dict[str, Json] | None:
    if found is None:
        return None
    if isinstance(found, TextCounterexample):
        return asdict(found)
    return {
        "instance": None if found.instance is None else found.instance.to_json(),
        "prompt": found.prompt or None,
        "tokens": found.tokens,
        "sequence": found.gap.sequence,
        "expected": plain(found.gap.expected),
        "actual": plain(found.gap.actual),
        "total_variation": plain(found.total_variation),
        "file": found.file,
        "not_saved": found.not_saved or None,
        "reproduce": found.reproduce,
    }
