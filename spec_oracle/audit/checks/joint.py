"""The check `joint`: is the extended law of one call the target's? Found in the best way that works."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed
from spec_oracle.audit.evidence.findings import Findings, NoEvidenceError, Way
from spec_oracle.audit.results import CheckResult, Evidence, Status
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.plain import ContractError, SubjectRaisedError

JOINT = Check(
    "joint", "is the extended law of one call the target's?", Fraction(20, 100), speaks_against_law=True
)


@JOINT.way(
    VerifierSubject,
    FunctionSubject,
    UniformsSubject,
    KeyedSubject,
    SystemSubject,
    EngineSubject,
    ServerSubject,
)
def _joint(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Try the subject's ways to find its law in order, and leave the findings at the bench."""
    notes: tuple[str, ...] = ()
    for way in subject.ways_to_law(bench, alpha):
        try:
            found = _findings(way)
        except NoEvidenceError as error:
            notes = (*notes, str(error))
        else:
            bench.findings = replace(found, notes=(*notes, *found.notes))
            return found.joint
    return CheckResult("joint", Status.INCONCLUSIVE, "; ".join(notes))


def _findings(way: Way) -> Findings:
    try:
        return way()
    except ContractError as error:
        return Findings(failed(str(error)), Evidence.STATISTICAL)
    except SubjectRaisedError as error:
        return Findings(CheckResult("", Status.INCONCLUSIVE, str(error)), Evidence.NONE)
