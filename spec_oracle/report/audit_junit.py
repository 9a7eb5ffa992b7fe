"""An audit as JUnit XML: a test suite a subject, a test case a check."""

from xml.etree import ElementTree as ET

from spec_oracle.audit import AuditReport, CheckResult, Status, SubjectReport
from spec_oracle.audit.results import UNTRIED


def audit_to_junit(report: AuditReport) -> str:
    """Return the XML. Failed checks are failures, inconclusive ones errors, checks not run are skipped."""
    root = ET.Element("testsuites", name="spec-oracle")
    for subject in report.subjects:
        root.append(_suite(subject))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(subject: SubjectReport) -> ET.Element:
    statuses = [check.status for check in subject.checks]
    suite = ET.Element(
        "testsuite",
        name=subject.subject,
        tests=str(len(statuses)),
        failures=str(statuses.count(Status.FAILED)),
        errors=str(statuses.count(Status.INCONCLUSIVE)),
        skipped=str(sum(status in UNTRIED for status in statuses)),
    )
    suite.extend(_case(subject.subject, check) for check in subject.checks)
    return suite


_ELEMENTS = {Status.FAILED: "failure", Status.INCONCLUSIVE: "error", **dict.fromkeys(UNTRIED, "skipped")}


def _case(subject: str, check: CheckResult) -> ET.Element:
    case = ET.Element("testcase", classname=f"spec_oracle.{subject}", name=check.name)
    if check.status in _ELEMENTS:
        ET.SubElement(case, _ELEMENTS[check.status], message=check.detail)
    else:
        ET.SubElement(case, "system-out").text = check.detail
    return case
