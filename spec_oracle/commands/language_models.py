"""Options of commands that make toy instances from a pair of language models."""

from pathlib import Path
from typing import Any

from spec_oracle.commands.options import option, positive
from spec_oracle.errors import InvalidInputError

_MODELS = "smollm2 or a Hugging Face path, then :layers=N, :temperature=T, :dtype=D"
_SHORTLIST = "tokens kept after a context: the target's top k, or the top k of both; default: target"
PAIR = (
    option("--target", default="smollm2", metavar="MODEL", help=f"{_MODELS}; default: smollm2"),
    option("--draft", default="smollm2:layers=20", metavar="MODEL", help="default: smollm2:layers=20"),
    option("--top-k", type=positive, default=6, metavar="V", help="tokens kept; default: 6"),
    option("--depth", type=positive, default=3, metavar="L", help="draft length; default: 3"),
    option("--num-paths", type=positive, default=2, metavar="K", help="draft paths; default: 2"),
    option("--temperature", type=float, default=1.0, help="of both models; default: 1"),
    option("--shortlist", choices=("target", "union"), default="target", help=_SHORTLIST),
    option("--device", default="cpu", help="default: cpu"),
)
"""Two language models, and the tree of their likeliest tokens after a prompt."""


def pair_of(options: Any) -> dict[str, Any]:
    """Return the values of `PAIR`, by the names that `cut_instance` has for them."""
    names = ("target", "draft", "top_k", "depth", "num_paths", "temperature", "shortlist", "device")
    return {name: getattr(options, name) for name in names}


def prompts_of(path: Path) -> list[str]:
    """Return the lines of a prompt file that are not blank; raises `InvalidInputError` without any."""
    try:
        prompts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    if not prompts:
        raise InvalidInputError(f"{path}: no prompts; expected one a line")
    return prompts
