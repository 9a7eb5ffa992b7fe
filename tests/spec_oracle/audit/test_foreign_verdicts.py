"""Foreign code through the audit: every defect of one call is lossy, every control lossless, all exactly."""

import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectReport, SubjectVerdict, audit_subject
from spec_oracle.audit.panel import panel
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.plain import PlainCode
from spec_oracle.specimens.foreign import FOREIGN, ForeignSpecimen
from spec_oracle.specimens.foreign.paths import PATHS_FOREIGN

TORCH_FOREIGN = pytest.importorskip("spec_oracle.specimens.foreign.torch_batches").TORCH_FOREIGN
SINGLE = {**FOREIGN, **TORCH_FOREIGN}
VERDICT = {True: SubjectVerdict.LOSSLESS, False: SubjectVerdict.LOSSY}

# The bug catalogue's one-call defects (section 6, tiers 1, 2 and 4) that live in the verifier. Others need a
# drafter (D4, C1, C2), penalties (H3), or several calls, requests or ranks (C4 to C7, C9, C10).
CATALOGUE = {
    *("A1", "A3", "A4", "A5", "A11", "B1", "B2", "B9", "B13", "F1", "F7", "F8", "G1", "G2", "G3", "G4", "L1"),
    *("A6", "C8", "E2", "E3-argmax", "E3-row", "E3-draft", "E3-residual", "E4-row0", "E4-before", "F5", "F6"),
    "C3",
}


def audited(specimen: ForeignSpecimen, paths: int = 1) -> SubjectReport:
    instances = {name: panel(3, 2, paths, 0)[name] for name in ("flat", "peaked")}
    subject = FunctionSubject("foreign", PlainCode(specimen.verify, specimen.array), num_paths=paths)
    return audit_subject(subject, AuditOptions(instances=instances, shrink=False, checks=()), 1e-6)


@pytest.mark.parametrize("name", SINGLE)
def test_of_one_path(name):
    report = audited(SINGLE[name])
    assert (report.verdict, report.evidence) == (VERDICT[SINGLE[name].lossless], Evidence.EXACT)


@pytest.mark.parametrize("name", PATHS_FOREIGN)
def test_of_two_paths(name):
    report = audited(PATHS_FOREIGN[name], paths=2)
    assert (report.verdict, report.evidence) == (VERDICT[PATHS_FOREIGN[name].lossless], Evidence.EXACT)


@pytest.mark.parametrize(
    ("specimen", "paths"),
    [(FOREIGN["epsilon_in_ratio"], 1), (PATHS_FOREIGN["k_seq_of_low_rho"], 2)],
    ids=["epsilon", "rho"],
)
def test_a_defect_no_sample_would_show(specimen, paths):
    report = audited(specimen, paths)
    assert report.total_variation == pytest.approx(5e-4, rel=0.5)


def test_the_catalogue_is_complete():
    known = {s.zoo_id for s in (*SINGLE.values(), *PATHS_FOREIGN.values()) if not s.lossless}
    assert known >= CATALOGUE
