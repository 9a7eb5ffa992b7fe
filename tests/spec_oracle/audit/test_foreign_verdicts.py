"""Foreign code through the audit: every defect of one call is lossy, every control lossless, all exactly."""

from functools import cache

import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, Evidence, SubjectReport, SubjectVerdict, audit_subject
from spec_oracle.audit.instances import panel
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode

pytest.importorskip("torch")
VERDICT = {True: SubjectVerdict.LOSSLESS, False: SubjectVerdict.LOSSY}
NO_BONUS = "no-bonus"
"""Lossless, but as a run that never reaches the bonus it proves nothing."""

OWN_GENERATORS = {"blocks-of-a-counter-generator", "hash-of-a-counter", "own-seeds-by-paths"} | {
    "buffer-for-each-size"  # which another test may have made it fill
}
"""Lossless, with random numbers that cannot be followed; the checks of dependence are what they are for."""


OUT_OF_SIGHT = ("own-", "unseen-")
"""How the names of specimens begin that draw from generators of their own."""


def of_one_call(num_paths):
    """Return the functions whose law of one call is right, or is what is wrong with them."""
    found = [s for s in specimens(num_paths=num_paths).values() if s.name not in OWN_GENERATORS]
    found = [s for s in found if not s.name.startswith(OUT_OF_SIGHT)]
    return [s for s in found if s.kind == "function" and set(s.detected_by) <= {"joint", "exact"}]


FAMILIES = ("shape-", "corner-", "handed-", "watched-", "mixed-", "accept-by-", "torch-g", "torch-race-at")


def is_of_day(specimen):
    """Whether it is a defect, or a control that is not of a family made for another check than `joint`."""
    return not specimen.is_control or not specimen.name.startswith(FAMILIES)


# The bug catalogue's one-call defects (section 6, tiers 1, 2 and 4) that live in the verifier. Others need a
# drafter (D4, C1, C2), penalties (H3), or several calls, requests or ranks (C4 to C7, C9, C10).
CATALOGUE = {
    *("A1", "A3", "A4", "A5", "A11", "B1", "B2", "B9", "B13", "F1", "F7", "F8", "G1", "G2", "G3", "G4", "L1"),
    *("A6", "C3", "C8", "E2", "E3", "E4", "F5", "F6"),
}


@cache
def audited(name: str, paths: int) -> SubjectReport:
    specimen = specimens(num_paths=paths)[name]
    length = 2 if specimen.num_paths == 1 else 1  # what is wrong with several paths is wrong at one node
    instances = {name: panel(3, length, specimen.num_paths, 0)[name] for name in ("flat", "peaked")}
    code = SamplerCode(specimen.function, specimen.array)
    subject = SamplerSubject("foreign", code, num_paths=specimen.num_paths)
    options = AuditOptions(instances=instances, shrink=False, checks=(), budget=15.0)
    return audit_subject(subject, options, 1e-6)


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(
    "specimen",
    [
        pytest.param(one, id=one.name, marks=() if is_of_day(one) else pytest.mark.nightly)
        for one in of_one_call(1) + of_one_call(2)
    ],
)
def test_every_defect_is_lossy_and_every_control_lossless(specimen):
    report = audited(specimen.name, specimen.num_paths)
    right = SubjectVerdict.INCONCLUSIVE if specimen.name == NO_BONUS else VERDICT[specimen.is_control]
    assert report.verdict is right
    assert report.evidence is Evidence.EXACT


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(("name", "paths"), [("epsilon-in-ratio", 1), ("k-seq-of-low-rho", 2)])
def test_a_defect_no_sample_would_show(name, paths):
    report = audited(name, paths)
    assert report.total_variation == pytest.approx(5e-4, rel=0.5)


def test_the_catalogue_is_complete():
    as_rules = [s for s in specimens().values() if s.kind == "rule"]  # audited in test_audit.py
    assert {s.catalogue_id for s in [*as_rules, *of_one_call(1), *of_one_call(2)]} >= CATALOGUE
