"""An audit as JUnit XML (xunit2): a test suite a subject, a test case a check."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.installed import tool_version
from spec_oracle.report.audit_text import clause, failure_lines
from spec_oracle.report.reading import open_checks
from spec_oracle.report.what_to_do import next_steps

NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML and HTML cannot hold, and code under test may print."""


def audit_to_junit(report: AuditReport) -> str:
    """Return the XML: red as the exit code is.

    What stays open is an error; a failure on record, and what does not apply, is skipped.
    """
    root = ET.Element("testsuites", name="spec-oracle")
    totals: Counter[str] = Counter()
    for subject in report.subjects:
        suite = _suite(subject, report)
        root.append(suite)
        totals.update({name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors")})
    for name, count in totals.items():
        root.set(name, str(count))
    for element in root.iter():
        element.text = element.text and NO_XML.sub("\ufffd", element.text)
        for name, value in element.items():
            element.set(name, NO_XML.sub("\ufffd", value))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(subject: SubjectReport, report: AuditReport) -> ET.Element:
    kinds = Counter(map(_element, subject.checks))
    suite = ET.Element(
        "testsuite",
        name=subject.subject,
        tests=str(len(subject.checks)),
        failures=str(kinds["failure"]),
        errors=str(kinds["error"]),
        skipped=str(kinds["skipped"]),
    )
    facts = {
        "tool_version": tool_version(),
        "seed": str(report.seed),
        "alpha": f"{subject.alpha:g}",
        "verdict": subject.verdict.value,
        "evidence": subject.evidence.value,
        **{f"scope {number}": line for number, line in enumerate(subject.remarks.scope, start=1)},
    }
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=value)
    suite.extend(_case(subject, check) for check in subject.checks)
    return suite


def _element(check: CheckResult) -> str:
    """Return the element that says how a check ended."""
    if not check.is_settled:
        return "error" if check.status in (Status.INCONCLUSIVE, Status.NOT_RUN) else "failure"
    return "system-out" if check.status is Status.PASSED else "skipped"


def _case(subject: SubjectReport, check: CheckResult) -> ET.Element:
    where, took = f"spec_oracle.{subject.subject}", f"{check.seconds:.3f}"
    case = ET.Element("testcase", classname=where, name=check.name, time=took)
    kind = _element(check)
    if kind == "system-out":
        ET.SubElement(case, kind).text = f"{check.word.value}: {check.detail}"
        return case
    found = ET.SubElement(case, kind, type=check.status.value, message=clause(check))
    if not check.is_settled:
        steps = next_steps(subject) if check is open_checks(subject)[0] else []
        found.text = "\n".join([*failure_lines(subject, check), *(f"do: {step}" for step in steps)]) or None
    return case
