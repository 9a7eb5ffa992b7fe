"""The tests of docs/findings fail on released packages, and pass with the patches beside them."""

import re
import sys

import pytest

from lab.findings import FINDINGS, FOLDER, audited, copied, index, main, outcome, questions, selected
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.subjects import resolve_subject
from spec_oracle.errors import InvalidInputError

SERVERS = {
    "llama-cpp-logprobs",
    "llama-cpp-stop-logprobs",
    "mlx-lm-server-prompt-cache",
    "mlx-lm-server-seed",
}
HERE = [one for one in FINDINGS if one.package == "transformers"]
"""What is installed wherever tests run."""
VLLM = [one for one in FINDINGS if one.module == "vllm"]


def marked(finding):
    """Return the parameter of a test that runs a finding's own test."""
    kind = "servers" if finding.name in SERVERS else "nightly" if finding in HERE else "engines"
    kind = "vllm" if finding.module == "vllm" else kind
    return pytest.param(finding, marks=getattr(pytest.mark, kind), id=finding.name)


@pytest.fixture
def copies(tmp_path):
    """Return what copies the package of a finding into a folder of its own."""
    return lambda finding, **how: copied(finding, tmp_path / str(how["patched"]), **how)


def test_the_index_is_made_of_the_findings():
    assert index() == (FOLDER / "index.md").read_text("utf-8")


@pytest.mark.parametrize("page", questions(), ids=lambda page: page.stem)
def test_the_example_of_a_question_prints_its_stated_output(page, capsys):
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(block, {})
        assert capsys.readouterr().out.splitlines() == re.findall(r"^print.*  # (.*)$", block, re.MULTILINE)


def test_every_page_has_a_test_and_every_file_is_on_a_page():
    assert {one.page for one in FINDINGS} == {page.stem for page in FOLDER.glob("*.md")} - {"index"}
    files = {
        path.relative_to(FOLDER).as_posix() for kind in ("py", "patch") for path in FOLDER.glob(f"*/*.{kind}")
    }
    assert files == {name for one in FINDINGS for name in (one.test.partition("::")[0], one.patch) if name}
    for one in FINDINGS:
        file, _, chosen = one.test.partition("::")
        text = (FOLDER / file).read_text("utf-8")
        compile(text, file, "exec")
        assert not chosen or f"def {chosen.rpartition('::')[2]}(" in text
        page = (FOLDER / f"{one.page}.md").read_text("utf-8")
        assert f"]({file})" in page
        assert not one.patch or f"]({one.patch})" in page


@pytest.mark.parametrize("finding", HERE, ids=[one.name for one in HERE])
def test_a_patch_applies_to_the_installed_release(finding, copies):
    root = copies(finding, patched=True)
    files = re.findall(r"^\+\+\+ b/(.*)$", (FOLDER / finding.patch).read_text("utf-8"), re.MULTILINE)
    for file in files:
        assert not (root / file).is_symlink()
        compile((root / file).read_text("utf-8"), file, "exec")


@pytest.mark.parametrize("finding", [marked(one) for one in FINDINGS])
def test_a_release_fails_and_its_patched_copy_passes(finding, copies):
    assert outcome(finding, copies(finding, patched=False), sys.executable) == "fails"
    if finding.patch:
        assert outcome(finding, copies(finding, patched=True), sys.executable) == "passes"


@pytest.mark.parametrize("finding", [marked(one) for one in FINDINGS if one.audit])
def test_an_audit_calls_the_patched_copy_lossless(finding, copies):
    assert audited(finding, copies(finding, patched=True)).startswith("lossless")


@pytest.mark.parametrize("finding", VLLM, ids=[one.name for one in VLLM])
def test_subjects_named_on_a_page_are_engines(finding):
    assert isinstance(resolve_subject(finding.audit[0]), EngineSubject)


def test_findings_are_selected_by_page_and_by_package():
    assert [one.package for one in selected(["bad-input"])] == ["lmdeploy", "sglang"]
    assert [one.name for one in selected(["bad-input-sglang"])] == ["bad-input-sglang"]
    assert selected([]) == [*FINDINGS]
    with pytest.raises(InvalidInputError, match="did you mean 'mlx-lm-penalties'"):
        main(["mlx-lm-penalty"])
