"""Options of commands that cut instances out of a pair of language models."""

import argparse
from pathlib import Path
from typing import Any

from spec_oracle.commands.options import positive
from spec_oracle.errors import InvalidInputError


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


def pair_of(options: Any) -> dict[str, Any]:
    """Return what the options of `add_pair` say, by the names that `cut_instance` has for them."""
    names = ("target", "draft", "top_k", "depth", "num_paths", "temperature", "shortlist", "device")
    return {name: getattr(options, name) for name in names}
