"""Options of commands that make toy instances from a pair of language models."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from spec_oracle.commands.options import Option, positive, value
from spec_oracle.errors import InvalidInputError

_MODELS = "smollm2 or a Hugging Face path, then :layers=N, :temperature=T, :dtype=D"
_SHORTLIST = "tokens kept after a context: the target's top k, or the top k of both"


def pair_options(*, depth: int = 3, num_paths: int | None = 2) -> tuple[Option, ...]:
    """Return the options that name two language models and size the tree of their likeliest tokens.

    ``depth`` and ``num_paths`` are defaults; with None there is no option for the number of draft paths.
    """
    paths = () if num_paths is None else (value("--num-paths", "K", "draft paths", positive, num_paths),)
    return (
        value("--target", "MODEL", _MODELS, default="smollm2"),
        value("--draft", "MODEL", "as --target", default="smollm2:layers=20"),
        value("--top-k", "V", "tokens kept", positive, 6),
        value("--depth", "L", "draft length", positive, depth),
        *paths,
        value("--temperature", "T", "of both models", float, 1.0),
        value("--shortlist", None, _SHORTLIST, default="target", choices=("target", "union")),
        value("--device", "DEVICE", "of both models", default="cpu"),
    )


PAIR = pair_options()
"""Two language models, and the tree of their likeliest tokens after a prompt."""


def pair_of(options: Namespace) -> dict[str, Any]:
    """Return the values of `pair_options` by the names that `cut_instance` has for them."""
    names = ("target", "draft", "top_k", "depth", "num_paths", "temperature", "shortlist", "device")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def require_files_or_prompts(options: Namespace, command: str) -> None:
    """Raise `InvalidInputError` unless there are either instance ``files`` or ``prompts``."""
    if (options.prompts is None) == (not options.files):
        raise InvalidInputError(f"{command}: expected either instance files or --prompts")


def prompts_of(path: Path) -> list[str]:
    """Return the lines of a prompt file that are not blank; raises `InvalidInputError` without any."""
    try:
        prompts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    if not prompts:
        raise InvalidInputError(f"{path}: no prompts; expected one a line")
    return prompts
