"""Citations of docs/theory.md lead somewhere, and every rule has its page."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from docs import site_pages

ROOT = Path(__file__).parents[2]
THEORY = (ROOT / "docs" / "theory.md").read_text("utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
CITATION = re.compile(r'docs/theory\.md,\s+"([^"]+)"')


def test_citations_of_theory_lead_to_its_sections():
    titles = set(re.findall(r"^## (.+)$", THEORY, re.MULTILINE))
    cited = [
        (path, " ".join(title.split()))
        for package in ("spec_oracle", "verifiers", "lab")
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


def test_the_glossary_is_alphabetical_and_short():
    entries = re.findall(r"^\*\*(.+?)\.\*\* (.+?)\n\n", GLOSSARY + "\n", re.MULTILINE | re.DOTALL)
    words = [word.casefold() for word, _ in entries]
    assert words == sorted(set(words))
    assert len(words) == GLOSSARY.count("\n**")
    assert not [word for word, text in entries if len(text) > 320]


@pytest.mark.parametrize(
    "name", ["sample_and_match", "recursive_rejection_distinct", "greedy_multipath_carry"]
)
def test_a_rule_has_a_page_with_its_law_and_two_pictures(name):
    page = site_pages.rule_page(name)
    assert page.startswith(f"# `{name}`")
    assert page.count("<svg") == 2
    (law,) = re.findall(r"^\| (\d+/\d+) \| 0 \| .* \|$", page, re.MULTILINE)
    assert 1 < Fraction(law) < 3
