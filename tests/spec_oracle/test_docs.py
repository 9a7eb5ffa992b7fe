"""Citations lead somewhere, the layers are those of the code, every rule has its page."""

import ast
import re
from fractions import Fraction
from pathlib import Path

import pytest

from docs import site_pages
from tests.strategies import at_night
from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[2]
THEORY = (ROOT / "docs" / "theory.md").read_text("utf-8")
GLOSSARY = (ROOT / "docs/reference/glossary.md").read_text("utf-8")
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


def layers_table():
    """Return the layers from top to bottom as a table: each package with the first line of its docstring."""
    rows = ["| layer | package | what it does |", "|---|---|---|"]
    for number, layer in reversed([*enumerate(LAYERS, 1)]):
        for place, name in enumerate(sorted(layer)):
            told = " ".join(docstring_of(name).split("\n\n")[0].split())
            cell = told.replace("``", "`").replace("|", "\\|")
            rows.append(f"| {'' if place else number} | `{name}` | {cell} |")
    return "\n".join(rows) + "\n"


def docstring_of(name):
    """Return the docstring of a module, or of the package or command of that name."""
    folder = ROOT.joinpath(*name.split("."))
    files = (folder.with_suffix(".py"), folder / "__init__.py", folder / "__main__.py")
    told = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) for file in files if file.exists())
    return next(filter(None, told))


def test_the_architecture_shows_the_layers():
    page = (ROOT / "docs/how-it-works/architecture.md").read_text("utf-8")
    assert layers_table() in page, f"put this table into docs/how-it-works/architecture.md:\n{layers_table()}"


def test_the_architecture_names_modules_that_exist():
    page = (ROOT / "docs/how-it-works/architecture.md").read_text("utf-8")
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", page)
    assert len(named) > 30
    folders = (ROOT, ROOT / "spec_oracle")
    assert not [name for name in named if not any((folder / name).is_file() for folder in folders)]


def test_the_glossary_is_alphabetical_and_short():
    entries = re.findall(r"^\*\*(.+?)\.\*\* (.+?)\n\n", GLOSSARY + "\n", re.MULTILINE | re.DOTALL)
    words = [word.casefold() for word, _ in entries]
    assert words == sorted(set(words))
    assert len(words) == GLOSSARY.count("\n**")
    assert not [word for word, text in entries if len(text) > 320]


@pytest.mark.parametrize(
    "name",
    ["sample_and_match", "recursive_rejection_distinct", *at_night("greedy_block", "greedy_multipath_carry")],
)
def test_a_rule_has_a_page_with_its_law_and_two_pictures(name):
    page = site_pages.rule_page(name)
    assert page.startswith(f"# `{name}`")
    assert page.count("<svg") == 2
    (law,) = re.findall(r"^\| (\d+/\d+) \| 0 \| .* \|$", page, re.MULTILINE)
    assert 1 < Fraction(law) < 3
