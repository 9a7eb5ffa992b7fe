"""Every code block of the pages does what it says: a page is a test, in a folder of its own.

Python is run, examples and tests in it too; commands are run, and print what is shown under them;
configurations, plans, instances and workflows are read by what reads them. A block whose first line is a
comment that names a file is that file. `<!-- lm -->` before a block, or another marker, makes it a test of
that marker. An audit whose output is not shown is cut to the law and one check.
"""

import inspect
import json
import re
import shlex
import shutil
import sys
from contextlib import ExitStack, chdir, redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import yaml
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

import verifiers
from spec_oracle.cli import command_parser, main
from spec_oracle.gate.configuration import read_configuration
from spec_oracle.sweeps import Plan
from spec_oracle.third_party.samplers.wheels import FOLDER_VARIABLE, cache_folder
from spec_oracle.toy import Instance
from tests.spec_oracle.servers.client.stand_in import StandIn, answering
from tests.subjects import forget_modules_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE = ("Made by", "Made on", "Written by")
"""What pages say that a command has written: their blocks are its output."""

QUICK = {
    "audit": ["--check", "inputs-kept", "--draft-length", "1", "--tokens", "2", "--budget", "5"],
    "audit-server": [
        *("--prompt", "bc", "--detect", "0.5"),
        *(
            word
            for name in ("shapes", "long-texts", "streams", "batch", "length", "logprobs")
            for word in ("--skip", name)
        ),
    ],
}
TORCH = """
from lab.specimens.registry import specimens

verify = specimens()["torch-inverse-cdf-search"].function
"""
TREES = """
import sampler

def verify(draft_tokens, draft_probs, target_probs, generator):
    return sampler.verify(draft_tokens[:, 0], draft_probs[:, 0], target_probs[:, 0], generator)
"""
GIVEN = {
    "my_engine/sampler.py": TORCH,
    "sampler.py": (ROOT / "examples/engine/sampler.py").read_text("utf-8"),
    "trees.py": TREES,
    **{file.name: file.read_text("utf-8") for file in sorted((ROOT / "docs/examples").glob("*.py"))},
}
"""Code that pages call the reader's own."""

FIVE = re.search(r"## Five commands.*?```sh\n(.*?)```", PAGES[0].read_text("utf-8"), re.DOTALL)[1]
"""They need a package index: `.ci/smoke` runs them."""

OF_NIGHT = {"docs/guide/from-your-signature.md", "docs/guide/audit-your-engine.md"}
"""Pages whose commands take longest; by day tests of `init` and of engines run what they show."""


def shell(example):
    """Run commands: a line each, or after "$ " with what they print under them."""
    text = example.parsed
    if text == FIVE:
        return
    shown = text.startswith("$ ")
    for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:] if shown else text.splitlines():
        command, _, expected = one.partition("\n")
        run(shlex.split(command, comments=True), expected, is_run="/findings/" not in example.path)


def run(words, expected, *, is_run):
    """Run a command of ours, or look for a target of make; it prints what is expected, or ends with 0."""
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text("utf-8")
        return
    if words[0].startswith(".venv-vllm/"):  # what `make vllm` installs, and `make test-vllm` runs
        return
    if words[0] == "cd":
        shutil.copytree(ROOT / words[1], words[1])
        with chdir(words[1]):
            run(words[3:], expected, is_run=is_run)
        return
    if words[:2] == ["sed", "-i"]:  # a defect that the page plants
        _, right, wrong, _ = words[2].replace("\\", "").split("/")
        code = Path(words[3]).read_text("utf-8")
        assert code.count(right) == 1
        Path(words[3]).write_text(code.replace(right, wrong), "utf-8")
        run(words[5:], expected, is_run=is_run)
        return
    if words[0] != "spec-oracle":
        assert not is_run, f"{words[0]} is run by nobody"
        return
    arguments = words[1:] if expected else [*words[1:], *QUICK.get(words[1], ())]
    command_parser().parse_args(arguments)
    if not is_run or "--prompts" in arguments or "--scheduler" in arguments:  # minutes; a cluster
        return
    with ExitStack() as stack:
        if words[1] == "audit-server":
            stack.enter_context(answering(StandIn()))
        printed = stack.enter_context(redirect_stdout(StringIO()))
        code = main(arguments)
    if expected:
        found, wanted = (
            re.sub(r"\b\d(\.\d+)?e-1[5-9]\b", "0", text) for text in (printed.getvalue(), expected)
        )
        checker, flags = OutputChecker(), ELLIPSIS | NORMALIZE_WHITESPACE
        assert checker.check_output(wanted, found, flags), found
    else:
        assert code == 0, printed.getvalue()


def workflow(example):
    """Run what the steps of a workflow call of ours."""
    for step in yaml.safe_load(example.parsed):
        words = shlex.split(step["run"])
        if words[0] == "spec-oracle":
            run(words, "", is_run=True)
        elif words[0] == "cat":
            assert Path(words[1]).read_text("utf-8").startswith("# spec-oracle audit")


def configuration(example):
    """Read a configuration, or the plan of a sweep, from its file."""
    file = Path(named(example))
    if file.name == "plan.toml":
        assert len(Plan.load(file)) > 1
    else:
        assert read_configuration(file).subjects


def named(example):
    """Return the file that the first line of a block names, "" for none."""
    found = isinstance(example.parsed, str) and re.match(r"# ([\w/]+\.\w+)\n", example.parsed)
    return found[1] if found else ""


def python(document):
    """Parse Python that is run; in findings, which need other people's packages, it is only compiled."""
    if "/findings/" in document.path:
        return CodeBlockParser(
            "python", lambda example: compile(example.parsed, example.path, "exec") and None
        )(document)
    return PythonCodeBlockParser(doctest_optionflags=ELLIPSIS)(document)


SYBIL = Sybil(
    [
        python,
        *(CodeBlockParser(language, shell) for language in ("sh", "console")),
        CodeBlockParser("yaml", workflow),
        CodeBlockParser("toml", configuration),
        CodeBlockParser("json", lambda example: Instance.from_json(json.loads(example.parsed)) and None),
    ]
)
LANGUAGES = {"python", "sh", "console", "yaml", "toml", "json"}


def marked(document):
    """Return the examples of a page by the marker before them."""
    by_marker = {}
    for example in document.examples():
        before = re.search(r"<!-- (\w+) -->\n$", document.text[: example.start])
        by_marker.setdefault(before[1] if before else "", []).append(example)
    return by_marker


def items():
    """Yield the pages with blocks, once a marker."""
    for page in PAGES:
        for marker in marked(SYBIL.parse(page)):
            name = f"{page.relative_to(ROOT)}{marker and f':{marker}'}"
            marks = [getattr(pytest.mark, marker)] if marker else []
            marks += [pytest.mark.nightly] if name in OF_NIGHT else []
            yield pytest.param(page, marker, marks=marks, id=name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with the reader's code and our fetched engines; forget that code afterwards."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(cache_folder()))
    monkeypatch.chdir(tmp_path)
    Path("docs/guide").mkdir(parents=True)  # where a page of ours has its picture drawn
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for file, text in GIVEN.items():
        write(file, text)
    yield
    forget_modules_of(tmp_path)


@pytest.mark.parametrize(("page", "marker"), tuple(items()))
@pytest.mark.usefixtures("folder")
def test_examples_of_a_page_run(page, marker, assert_lossless):
    document = SYBIL.parse(page)
    document.namespace.update(drafts_and_decisions())
    fixtures = {
        "assert_lossless": partial(assert_lossless, checks=("inputs-kept",), draft_length=1, budget=5.0)
    }
    examples = marked(document)[marker]
    for example in examples:
        if file := named(example):
            write(file, example.parsed)
    for example in examples:
        example.evaluate()
        for name in [name for name in document.namespace if name.startswith("test_")]:
            call(document.namespace.pop(name), fixtures)


def write(file, text):
    path = Path(file)
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)  # a module in place of a package
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def call(test, fixtures):
    """Call a test as pytest would; of one that has several cases, the check that others are cut to."""
    (marks,) = getattr(test, "pytestmark", []) or [None]
    if marks is None:
        needed = inspect.signature(test).parameters.keys() & fixtures
        test(**{name: fixtures[name] for name in needed})
        return
    (case,) = (case for case in marks.args[1] if case.id == "inputs-kept")
    test(*case.values)


def drafts_and_decisions():
    """Return what a verifier is handed: the names under which pages use them."""
    rows = np.full((1, 2, 3, 4), 0.25)
    drafts = verifiers.Drafts.of_paths(np.zeros((1, 2, 2), dtype=int), rows[:, :, :2], rows)
    return {"drafts": drafts, "decisions": verifiers.numpy_decisions(np.random.default_rng(0))}


def test_no_block_is_left_out():
    for page in PAGES:
        text = page.read_text("utf-8")
        fences = re.findall(r"^```(\w*)$", text, re.MULTILINE)[::2]
        if any(made in text for made in MADE):
            fences = [language for language in fences if language]
        assert LANGUAGES.issuperset(fences), page
        assert sum(map(len, marked(SYBIL.parse(page)).values())) >= len(fences), page


def test_adapters_to_copy_are_the_files_of_the_examples_and_short():
    text = (ROOT / "docs/guide/from-your-signature.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    files = dict(block.removeprefix("# ").split("\n", 1) for block in blocks if block.startswith("# "))
    assert files == {name: code for name, code in GIVEN.items() if name.endswith("_adapter.py")}
    assert all(10 <= code.count("\n") - code.count("\n\n") <= 25 for code in files.values())
    others = "".join(block for block in blocks if not block.startswith("# "))
    signatures = re.findall(r"^def \w+\(\n.*?^\) -> [^:]*", others, re.MULTILINE | re.DOTALL)
    engines = [code for name, code in GIVEN.items() if name.endswith("_engine.py")]
    assert [sum(signature in code for code in engines) for signature in signatures] == [1, 1, 1]


def test_the_five_commands_are_written_once_and_run_by_the_smoke_test():
    assert FIVE in (ROOT / "docs/index.md").read_text("utf-8")
    assert FIVE.count("\n") == 5
    assert "Five commands" in (ROOT / ".ci/smoke").read_text("utf-8")
