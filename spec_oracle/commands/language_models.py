"""Options of commands that cut instances out of a pair of language models."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spec_oracle.commands.options import positive, progress
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance


def add_pair(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name two language models and how to cut an instance out of them."""
    models = "smollm2 or a Hugging Face path, then :layers=N, :temperature=T, :dtype=D"
    command.add_argument("--target", default="smollm2", metavar="MODEL", help=f"{models}; default: smollm2")
    command.add_argument(
        "--draft", default="smollm2:layers=20", metavar="MODEL", help="default: smollm2:layers=20"
    )
    if required:
        command.add_argument("--prompt", required=True, help="the text to continue")
    command.add_argument("--top-k", type=positive, default=6, metavar="V", help="default: 6")
    command.add_argument("--depth", type=positive, default=3, metavar="L", help="default: 3")
    command.add_argument("--num-paths", type=positive, default=2, metavar="K", help="default: 2")
    command.add_argument("--temperature", type=float, default=1.0, help="of both models; default: 1")
    command.add_argument(
        "--shortlist",
        choices=("target", "union"),
        default="target",
        help="the tokens of a context: the target's top k for both, or each model's own; default: target",
    )
    command.add_argument("--device", default="cpu", help="default: cpu")


def prompts_of(path: Path) -> list[str]:
    """Return the lines of a prompt file that are not blank; raises `InvalidInputError` without any."""
    try:
        prompts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    if not prompts:
        raise InvalidInputError(f"{path}: no prompts")
    return prompts


def cut_instances(options: Any, prompts: Sequence[str]) -> Iterator[tuple[str, Instance]]:
    """Yield each prompt with the instance cut out after it."""
    from spec_oracle.language_models import load_language_model
    from spec_oracle.language_models.cuts import language_model_tree

    progress("loading both models")
    target = load_language_model(options.target, device=options.device)
    draft = load_language_model(options.draft, device=options.device)
    for prompt in prompts:
        progress(f"cutting {prompt!r}")
        tree = language_model_tree(
            target,
            draft,
            target.encode(prompt),
            top_k=options.top_k,
            depth=options.depth,
            temperature=options.temperature,
            num_paths=options.num_paths,
            shortlist=options.shortlist,
        )
        yield prompt, tree.instance
