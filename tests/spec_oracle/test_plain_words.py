"""What a person reads is plain English: words of our own dialect are not printed."""

import argparse
import ast
import re
from pathlib import Path

import pytest

import spec_oracle
from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.registry import listed
from spec_oracle.cli import COMMANDS, command_parser
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.report.audit_text import audit_to_text, list_to_text
from spec_oracle.report.explain import FOUND, check_page, list_of_checks

BANNED = (
    *("coins?", "clocks?", "mates?", "volleys?", "haste", "diary", "bench", "toys"),
    *("laws?", "plain draws?", "plain decoding", "plain contract", "plainly", "emissions?"),
    *("draws", "finds TV", "but for a chance", "speaks? against", "stands? for", "stands alone"),
    *("told", "tells", "asks? of", "at hand", "comes out as", "taken to come out", "as it comes"),
    *("handed", "settled", "watched", "certain rows", "wide rows", "nor is", "anew"),
)
"""Words that mean something else to a reader, or nothing; the plain ones are in CONTRIBUTING.md."""

DIALECT = re.compile(rf"(?<![\w-])({'|'.join(BANNED)})(?![\w:-])", re.IGNORECASE)
SPOKEN = {"passed", "failed", "inconclusive", "not_asked", "CheckResult", "progress", "replace", "note"}
"""Calls whose strings are printed."""


def require_plain(text, where=""):
    found = [f"{where}{line.strip()}" for line in text.splitlines() if DIALECT.search(line)]
    assert not found, "\n".join(found)


def helps(parser, name="spec-oracle"):
    """Yield the help of a parser and of all commands in it."""
    yield name, parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, command in action.choices.items():
                yield from helps(command, f"{name} {inner}")


HELPS = dict(helps(command_parser()))


@pytest.mark.parametrize("command", HELPS)
def test_help_texts_are_plain_and_have_examples(command):
    require_plain(HELPS[command])
    usage, *_ = HELPS[command].partition("\n\n")
    assert usage.startswith(f"usage: {command}")
    assert f"example{'s' * (command == 'spec-oracle')}:\n  spec-oracle " in HELPS[command]


def test_every_command_has_its_help_and_a_called_one_only_its_own():
    assert HELPS.keys() >= {f"spec-oracle {name}" for name in COMMANDS}
    assert set(dict(helps(command_parser("diff")))) == {"spec-oracle", "spec-oracle diff"}


@pytest.mark.parametrize("check", CHECKS)
def test_the_page_of_a_check(check):
    page = check_page(check)
    require_plain(page)
    assert "## Found in the wild" in page
    assert f"--check {check}" in page or "audit-server" in page


def test_every_finding_is_on_the_page_of_a_check():
    pages = Path(__file__).parents[2] / "docs" / "findings"
    assert FOUND.keys() == {page.stem for page in pages.glob("*.md")} - {"index"}
    assert all(line.partition(":")[0] in CHECKS for line in FOUND.values())
    require_plain("\n".join(FOUND.values()))


def test_lists_are_plain():
    require_plain(list_of_checks())
    require_plain(list_to_text(listed()))


def never_rejects(draft_tokens, draft_probs, target_probs, generator):
    """Raise where code under test may."""
    del draft_tokens, draft_probs, target_probs, generator
    raise RuntimeError("no driver")


def accepts_everything(draft_tokens, draft_probs, target_probs, generator):
    """Verify nothing: lossy."""
    import numpy as np

    del draft_probs
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([draft_tokens, bonus[:, None]], axis=1), np.full(*draft_tokens.shape)


@pytest.mark.parametrize("subject", ["token", accepts_everything, never_rejects])
def test_reports_are_plain(subject):
    checks = ("length", "calls", "inputs-kept", "bad-input")
    options = AuditOptions(vocab_size=2, draft_length=1, budget=5.0, checks=checks)
    report = audit(subject, options=options)
    require_plain(audit_to_text(report))
    require_plain(audit_to_text(report, verbose=True))
    require_plain(AUDIT_FORMATS["markdown"](report))
    require_plain(AUDIT_FORMATS["html"](report).partition("</style>")[2])


def printed(tree):
    """Yield the strings of a module that are raised, or that results are made of, with their lines."""
    for node in ast.walk(tree):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise) or name in SPOKEN or name.endswith("Error"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


SOURCES = sorted(Path(spec_oracle.__file__).parent.rglob("*.py"))


def test_errors_and_details():
    assert len(SOURCES) > 200
    for path in SOURCES:
        for line, text in printed(ast.parse(path.read_text(encoding="utf-8"))):
            require_plain(text, f"{path}:{line}: ")
