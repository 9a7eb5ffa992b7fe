"""An audit as JSON; the schema is docs/json-schema.md."""

from dataclasses import asdict
from typing import Any

from spec_oracle.audit.reports import (
    SCHEMA_VERSION,
    AuditReport,
    Counterexample,
    SubjectReport,
    TextCounterexample,
)
from spec_oracle.audit.results import UNTRIED
from spec_oracle.report.table import plain
from spec_oracle.version import tool_version


def header(seed: int | None = None) -> dict[str, Any]:
    """Return the fields that every JSON result begins with."""
    return {"schema_version": SCHEMA_VERSION, "tool_version": tool_version(), "seed": seed}


def audit_to_json(report: AuditReport) -> dict[str, Any]:
    """Return the audit as JSON data."""
    return {
        **header(report.seed),
        "alpha": report.alpha,
        "exit_code": report.exit_code,
        "seconds": round(report.seconds, 3),
        "subjects": [_subject(subject) for subject in report.subjects],
    }


def _subject(report: SubjectReport) -> dict[str, Any]:
    return {
        "subject": report.subject,
        "kind": report.kind,
        "version": report.version,
        "rule": report.rule,
        "rule_identified": report.rule_identified,
        "verdict": report.verdict.value,
        "evidence": report.evidence.value,
        "scope": list(report.scope),
        "coverage": report.coverage,
        "total_variation": plain(report.total_variation),
        "smallest_detectable_tv": plain(report.smallest_detectable_tv),
        "alpha": report.alpha,
        "block_efficiency": plain(report.block_efficiency),
        "optimum": plain(report.optimum),
        "headroom": plain(report.headroom),
        "instances": [
            {
                "instance": figures.name,
                "digest": figures.digest,
                "block_efficiency": figures.block_efficiency,
                "optimum": figures.optimum,
                "accepted_length": list(figures.accepted_length),
                "accepted_length_of_rule": list(figures.of_rule) or None,
            }
            for figures in report.figures
        ],
        "checks": [
            {
                "name": check.name,
                "status": check.status.value,
                "how": check.word.value,
                "detail": None if check.status in UNTRIED else check.detail,
                "reason": check.detail if check.status in UNTRIED else None,
                "known": check.known or None,
                "seconds": round(check.seconds, 3),
            }
            for check in report.checks
        ],
        "counterexample": _counterexample(report.counterexample),
        "notes": list(report.notes),
        "output": report.output,
        "error": report.error or None,
    }


def _counterexample(found: Counterexample | TextCounterexample | None) -> dict[str, Any] | None:
    if found is None:
        return None
    if isinstance(found, TextCounterexample):
        return asdict(found)
    return {
        "instance": None if found.instance is None else found.instance.to_json(),
        "prompt": list(found.prompt) or None,
        "tokens": found.tokens,
        "sequence": list(found.gap.sequence),
        "expected": plain(found.gap.expected),
        "actual": plain(found.gap.actual),
        "total_variation": plain(found.total_variation),
        "file": found.file,
        "reproduce": found.reproduce,
    }
