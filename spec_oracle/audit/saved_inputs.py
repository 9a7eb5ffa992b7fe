"""Inputs on which a part of a check fails: the record in a result, and its file."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.shapes.axes import AXES
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.toy import Instance
from spec_oracle.validation import require_share
from verifiers import Drafts, Paths

_MOST_NUMBERS: Final = 200_000
"""What a file may hold."""


@dataclass(frozen=True)
class FailingInputs:
    """Inputs on which a part of a check fails, and what it ``says`` of them.

    ``rate`` is the part's error rate; ``file`` holds the inputs once they are saved, ``not_saved`` says why
    they are not; ``reproduce`` is the command line that shows the failure again.
    """

    check: str
    part: str
    inputs: Mapping[str, object]
    rate: float
    says: str
    file: str | None = None
    reproduce: str = ""
    not_saved: str = ""

    @property
    def size(self) -> str:
        """How large the inputs are, "" where the part has its own."""
        for value in self.inputs.values():
            if isinstance(value, Drafts | Paths):
                requests = f"{value.batch} request{'s' * (value.batch > 1)}"
                length = value.depth if isinstance(value, Drafts) else value.draft_length
                return f"{requests}, {value.vocab_size} tokens, draft length {length}"
            if isinstance(value, Instance):
                return f"{value.vocab_size} tokens, draft length {value.draft_length}"
            if isinstance(value, Shape):
                return str(value)
        return ""

    def save(self, path: Path) -> None:
        """Write a file that `load` reads; raises `OSError`, and `InvalidInputError` for very large inputs."""
        inputs = {name: _as_json(value) for name, value in self.inputs.items()}
        numbers = sum(np.size(array) for value in self.inputs.values() for array in _arrays_of(value))
        if numbers > _MOST_NUMBERS:
            raise InvalidInputError(f"the inputs are {numbers:,} numbers, a file holds {_MOST_NUMBERS:,}")
        kept = {"check": self.check, "part": self.part, "rate": self.rate, "says": self.says}
        path.write_text(json.dumps({**kept, "inputs": inputs}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, parts: Mapping[str, Callable[..., object]]) -> "FailingInputs | None":
        """Read such a file, None if it is another one; raises `InvalidInputError` for one that is damaged.

        ``parts`` are the parts of checks by name: that of the file must be one of them, and take its inputs.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None  # reading it as an instance says what is wrong
        if not isinstance(data, dict) or "part" not in data:
            return None
        if data["part"] not in parts:
            raise InvalidInputError(f"{path}: {unknown(data['part'], parts, 'part of a check')}")
        try:
            inputs = {
                name: _READ[name](one) if name in _READ else one for name, one in data["inputs"].items()
            }
            rate = require_share(data["rate"], "rate")
            inspect.signature(parts[data["part"]]).bind(None, None, rate, **inputs)
            return cls(str(data["check"]), str(data["part"]), inputs, rate, str(data["says"]), str(path))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(f"{path}: no inputs of a failed check: {error!r}") from None


def _as_json(value: object) -> object:
    if isinstance(value, Drafts | Paths):
        ids = ("draft_tokens",) if len(_arrays_of(value)) == 3 else ("tokens", "parents")
        names = (*ids, "draft_probs", "target_probs")
        arrays = {name: array.tolist() for name, array in zip(names, _arrays_of(value), strict=True)}
        if isinstance(value, Paths) or value.num_paths is not None:
            return arrays
        return {**arrays, "max_depth": value.max_depth, "max_children": value.max_children}
    if isinstance(value, Instance):
        return value.to_json()
    if isinstance(value, Shape):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _as_json(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _arrays_of(value: object) -> list[NDArray[np.generic]]:
    """Return the arrays of an input."""
    if isinstance(value, Drafts):
        if value.num_paths is not None:
            return _arrays_of(value.paths)
        return [value.tokens, value.parents, value.draft.dense(), value.target.dense()]
    if isinstance(value, Paths):
        return [value.tokens, value.draft_probs, value.target_probs]
    if isinstance(value, Mapping):
        return list(value.values())
    return [value] if isinstance(value, np.ndarray) else []


def _drafts(data: Any) -> Paths | Drafts:
    """Read paths, or trees where there are parents."""
    draft, target = (np.array(data[name], dtype=np.float64) for name in ("draft_probs", "target_probs"))
    if "parents" in data:
        tokens, parents = (np.array(data[name], dtype=np.int64) for name in ("tokens", "parents"))
        return Drafts.of_tree(tokens, parents, draft, target, data["max_depth"], data["max_children"])
    return Paths(np.array(data["draft_tokens"], dtype=np.int64), draft, target)


def as_drafts(value: Paths | Drafts) -> Drafts:
    """Return the drafts of a rule that were saved: paths come back as arrays."""
    if isinstance(value, Drafts):
        return value
    return Drafts.of_paths(*value.arrays)


def _shape(data: Any) -> Shape:
    """Read a shape; raises `InvalidInputError` where its rows are of a kind that is no longer tried."""
    if data["kind"] not in AXES["kind"]:
        raise InvalidInputError(
            f"saved inputs: kind {data['kind']!r} of their rows is no longer tried; run the check again"
        )
    return Shape(**data)


_READ: Final[Mapping[str, Callable[..., object]]] = {
    "drafts": _drafts,
    "instance": Instance.from_json,
    "shape": _shape,
    "options": lambda data: {name: np.array(values) for name, values in data.items()},
    "judged": np.array,
    "uniforms": np.array,
    "order": np.array,
}
"""How inputs are read; all others are kept as they are."""
