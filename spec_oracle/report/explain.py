"""The page of a check, made from its question, the docstrings of its modules, and its findings."""

import sys
from collections.abc import Mapping
from textwrap import dedent

from spec_oracle.audit.checks import CHECKS, Check, Suite, Unless
from spec_oracle.audit.suite import SUITES
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.report.table import percent, text_table
from spec_oracle.servers.checks.suite import SERVER

FOUND = {
    "vllm-ascend-block-verify": "joint: vllm-ascend 0.13 to 0.26 accepts too much in block verification",
    "openvino-speculative-sampling": "joint: openvino-genai compares probabilities of different tokens",
    "llama-cpp-logprobs": "logprobs: with a draft model, tokens have the log-probability 0",
    "llama-cpp-stop-logprobs": "length: a stop string takes log-probabilities of earlier tokens away",
    "mlx-lm-penalties": "joint: mlx-lm forgets the prompt in penalties",
    "mlx-lm-server-prompt-cache": "joint: mlx-lm's server continues a repeated prompt without some tokens",
    "mlx-vlm-eagle3": "joint: mlx-vlm's EAGLE-3 accepts the most likely token of the draft vocabulary",
    "mlx-vlm-processors": "joint: mlx-vlm drops penalties and logit bias after the first token",
    "vllm-mlx-concurrent-mtp": "batch: vllm-mlx samples again after a rejection, if requests are concurrent",
    "keras-hub-speculative-sampler": "joint: keras-hub drafts greedily, and verifies as if it had sampled",
    "litgpt-speculative-decoding": "joint: litgpt accepts other tokens at temperature 0, and drops the first",
    "transformers-gemma-assistant": "joint: transformers drafts greedily, and reports another distribution",
    "transformers-other-tokenizer": "joint: transformers reports the probabilities of other tokens",
    "vllm-v2-block-reused-uniforms": "calls: vLLM 0.32 uses a uniform of block verification in two calls",
    "vllm-min-tokens": "joint: vLLM 0.32 forbids a stop token after drafts that reach min_tokens",
    "vllm-grammar": "joint: vLLM 0.32 drops sampled drafts that a grammar forbids, and samples from p then",
    "vllm-top-k": "joint: vLLM 0.32 for CPUs ends at a request with top_k and without top_p",
    "transformers-stop-sequence": "calls: transformers goes on behind a stop sequence",
    "transformers-stop-strings": "joint: transformers ends at a request with stop strings and an assistant",
    "transformers-guidance": "joint: transformers computes guidance with rejected drafts",
    "mlx-lm-server-seed": "batch: mlx-lm's server repeats itself after a request with a seed",
    "bad-input": "bad-input: seven samplers emit a forbidden token after a uniform of 0 or a NaN",
    "transformers-zero-uniform": "bad-input: transformers accepts a token of probability 0, once in 2^24",
}
"""What checks found in released software: a check and a line, by the page in docs/findings."""

_SUITES: Mapping[str, Suite] = {**SUITES, "server": SERVER}

_EXAMPLES = {
    "rule": "spec-oracle audit block",
    "sampler": "spec-oracle audit my_module:verify",
    "engine": "spec-oracle audit my_module:Engine",
}


def list_of_checks() -> str:
    """Return the question of every check."""
    return text_table(("check", "asks"), [(check.name, check.question) for check in CHECKS.values()]) + "\n"


def check_page(name: str) -> str:
    """Return the page of a check in Markdown; raises `InvalidInputError` for a name that is no check's."""
    if name not in CHECKS:
        raise InvalidInputError(f"check: {unknown(name, CHECKS)}")
    check = CHECKS[name]
    share = f"Its share of the false-alarm rate of a run is {percent(check.share, 0)}."
    against = "A failure proves that output is not distributed as the target's: the verdict is lossy."
    otherwise = "A failure leaves the verdict as it is, and the exit code is not 0."
    found = [
        f"* {line.removeprefix(f'{name}: ')} ([{page}](../../findings/{page}.md))"
        for page, line in FOUND.items()
        if line.startswith(f"{name}: ")
    ]
    none = "Nothing so far; its specimens are listed in [the kill matrix](../../evidence/specimens.md)."
    return f"""# `{name}`

{check.question[0].upper()}{check.question[1:]}

{against if check.against_law else otherwise} {share}

## How it knows

{_answers(check)}

## Found in the wild

{chr(10).join(found) or none}

## Reproduce

{_reproduce(check)}
"""


def _answers(check: Check) -> str:
    """Return the docstrings of a check's modules, kind by kind; kinds with the same module together."""
    answers: dict[str, list[str]] = {}
    for kind, suite in _SUITES.items():
        if check.name in suite:
            run = suite[check.name]
            module = (run.run if isinstance(run, Unless) else run).__module__
            answers.setdefault(_docstring(module), []).append(f"{kind}s")
    return "\n\n".join(f"### {' and '.join(kinds).capitalize()}\n\n{text}" for text, kinds in answers.items())


def _docstring(module: str) -> str:
    first, _, rest = (sys.modules[module].__doc__ or "").strip().partition("\n")
    return f"{first}\n{dedent(rest)}".strip()


def _reproduce(check: Check) -> str:
    asked = [kind for kind, suite in _SUITES.items() if check.name in suite]
    lines = [f"{_EXAMPLES[kind]} --check {check.name}" for kind in asked if kind in _EXAMPLES]
    lines += ["spec-oracle audit-server http://localhost:8080"] if "server" in asked else []
    return "\n".join(["```sh", *lines, "```"])
