"""Citations of docs/theory.md in the code lead to its sections, and its pointers to tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
THEORY = (ROOT / "docs" / "theory.md").read_text("utf-8")
CITATION = re.compile(r'docs/theory\.md,\s+"([^"]+)"')


def test_citations_of_theory_lead_to_its_sections():
    titles = set(re.findall(r"^## (.+)$", THEORY, re.MULTILINE))
    cited = [
        (path, " ".join(title.split()))
        for package in ("spec_oracle", "verifiers", "studies")
        for path in (ROOT / package).rglob("*.py")
        for title in CITATION.findall(path.read_text("utf-8"))
    ]
    assert len(cited) >= 11
    assert not [(path, title) for path, title in cited if title not in titles]


def test_theory_names_tests_that_exist():
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"test_\w+\.py", THEORY))
    assert len(named) > 15
    assert named <= known
