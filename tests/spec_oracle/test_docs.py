"""Citations of docs/theory.md lead somewhere; what pages show as code imports, parses, and is configured."""

import ast
import re
import shlex
from pathlib import Path

from spec_oracle.cli import command_parser
from spec_oracle.gate.configuration import read_configuration

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


@pytest.mark.parametrize(
    "name", ["sample_and_match", "recursive_rejection_distinct", "greedy_multipath_carry"]
)
def test_a_rule_has_a_page_with_its_law_and_two_pictures(name):
    page = site_pages.rule_page(name)
    assert page.startswith(f"# `{name}`")
    assert page.count("<svg") == 2
    (law,) = re.findall(r"^\| (\d+/\d+) \| 0 \| .* \|$", page, re.MULTILINE)
    assert 1 < Fraction(law) < 3


PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def blocks(language):
    """Return the code blocks of all pages in a language, each with its page."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = ((page, *block) for page in PAGES for block in fence.findall(page.read_text("utf-8")))
    return [(page, text) for page, of, text in found if of == language]


def test_python_on_the_pages_is_python_and_imports_what_exists():
    shown = blocks("python")
    assert len(shown) >= 8
    for page, text in shown:
        for node in ast.walk(ast.parse(text, str(page))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(ast.unparse(node), {})


def test_command_lines_on_the_pages_are_ones_that_the_command_takes():
    command = re.compile(r"^(?:\$ )?(?:cd \S+ && )?(?:\S*/)?(spec-oracle .*?)(?: +#.*)?$", re.MULTILINE)
    lines = [line for _, text in blocks("") for line in command.findall(text)]
    assert len(lines) >= 10
    for line in lines:
        command_parser().parse_args(shlex.split(line)[1:])


def test_the_configuration_on_the_page_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (text,) = (text for page, text in blocks("toml") if page.name == "in-a-team.md")
    for name in ("sampler", "trees"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "pyproject.toml").write_text(text)
    found = read_configuration(tmp_path / "pyproject.toml")
    assert found.subjects == ("sampler:verify", "trees:verify")
    assert found.own["sampler:verify"].keys() == {"skip", "expected"}
