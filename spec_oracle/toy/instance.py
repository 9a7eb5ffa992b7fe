"""An instance: target, draft, draft length and number of paths; and its file format."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.toy.model import Row, ToyModel, context_text
from spec_oracle.validation import require_instance_of, require_whole

_KEYS = {"vocab_size", "draft_length", "num_paths", "target", "draft"}


@dataclass(frozen=True, eq=False)
class Instance:
    """A verification problem: who is to be imitated, who drafts, and how much.

    ``target`` has rows for all contexts of up to ``draft_length`` tokens, ``draft`` for all of up to
    ``draft_length - 1`` (either may have more). Raises `InvalidInputError` where the parts do not fit.
    """

    target: ToyModel
    draft: ToyModel
    draft_length: int
    num_paths: int = 1

    def __post_init__(self) -> None:
        require_instance_of(self.target, "target", ToyModel)
        require_instance_of(self.draft, "draft", ToyModel)
        require_whole(self.draft_length, "draft_length")
        require_whole(self.num_paths, "num_paths")
        if self.target.vocab_size != self.draft.vocab_size:
            raise InvalidInputError(
                f"draft: has {self.draft.vocab_size} tokens, the target {self.target.vocab_size}"
            )

    def __repr__(self) -> str:
        """Show the instance file: what Hypothesis prints of a failing example can be audited."""
        return f"Instance.from_json({json.dumps(self.to_json())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001  # Hypothesis calls it
        printer.text(repr(self))

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return self.target.vocab_size

    @cached_property
    def exact(self) -> "Instance":
        """The same instance in rationals."""
        return Instance(self.target.exact, self.draft.exact, self.draft_length, self.num_paths)

    @cached_property
    def floats(self) -> "Instance":
        """The same instance in float64."""
        return Instance(self.target.floats, self.draft.floats, self.draft_length, self.num_paths)

    @cached_property
    def digest(self) -> str:
        """A short name of the instance by its rows and sizes, equal for equal instances only."""
        text = json.dumps(self.exact.to_json(), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def after(self, context: Sequence[int]) -> "Instance":
        """Return the instance of what follows ``context``."""
        return Instance(
            self.target.after(context), self.draft.after(context), self.draft_length, self.num_paths
        )

    def with_paths(self, num_paths: int) -> "Instance":
        """Return the same models with another number of draft paths."""
        return Instance(self.target, self.draft, self.draft_length, num_paths)

    def rounded(self, denominator: int) -> "Instance":
        """Return the instance with every probability a multiple of 1/denominator (largest remainders)."""
        return Instance(
            self.target.rounded(denominator),
            self.draft.rounded(denominator),
            self.draft_length,
            self.num_paths,
        )

    @classmethod
    def context_free(cls, target: Row, draft: Row, *, draft_length: int, num_paths: int = 1) -> "Instance":
        """Build an instance whose rows are the same after every context."""
        return cls(
            ToyModel.context_free(target, order=draft_length, name="target"),
            ToyModel.context_free(draft, order=draft_length - 1, name="draft"),
            draft_length,
            num_paths,
        )

    @classmethod
    def random(
        cls,
        vocab_size: int,
        draft_length: int,
        *,
        num_paths: int = 1,
        seed: int = 0,
        kind: str = "dirichlet",
        concentration: float = 1.0,
        agreement: float = 0.0,
    ) -> "Instance":
        """Draw an instance of the given kind; see `spec_oracle.toy.kinds`.

        >>> Instance.random(3, 2, num_paths=2, kind="sparse", seed=1).vocab_size
        3
        """
        from spec_oracle.toy.kinds import random_models

        require_whole(num_paths, "num_paths")
        target, draft = random_models(
            kind,
            vocab_size,
            draft_length,
            np.random.default_rng(require_whole(seed, "seed", 0)),
            concentration=concentration,
            agreement=agreement,
        )
        return cls(target, draft, draft_length, num_paths)

    @classmethod
    def from_json(cls, data: Any) -> "Instance":
        """Build from the parsed file; numbers may be ints, floats, `Fraction` or strings such as "1/3"."""
        if not isinstance(data, Mapping):
            raise InvalidInputError(f"instance: expected a JSON object, got {type(data).__name__}")
        for key in ("draft_length", "target", "draft"):
            if key not in data:
                raise InvalidInputError(f'instance: key "{key}" is missing')
        for key in data:
            if key not in _KEYS:
                raise InvalidInputError(f"instance: {unknown(key, sorted(_KEYS), 'key')}")
        draft_length = require_whole(data["draft_length"], "draft_length")
        num_paths = require_whole(data.get("num_paths", 1), "num_paths")
        for key in ("target", "draft"):
            if not isinstance(data[key], Mapping):
                raise InvalidInputError(f"{key}: expected an object from contexts to rows")
        target = ToyModel.from_conditionals(
            data["target"], order=max(draft_length, _longest(data["target"])), name="target"
        )
        draft = ToyModel.from_conditionals(
            data["draft"], order=max(draft_length - 1, _longest(data["draft"])), name="draft"
        )
        if data.get("vocab_size", target.vocab_size) != target.vocab_size:
            raise InvalidInputError(
                f"vocab_size: is {data['vocab_size']}, but the target's rows have {target.vocab_size} entries"
            )
        return cls(target, draft, draft_length, num_paths)

    def to_json(self) -> dict[str, Any]:
        """Return the file's content; rationals become strings "a/b", floats stay numbers."""
        return {
            "vocab_size": self.vocab_size,
            "draft_length": self.draft_length,
            "num_paths": self.num_paths,
            "target": _rows_to_json(self.target),
            "draft": _rows_to_json(self.draft),
        }

    @classmethod
    def load(cls, path: str | Path) -> "Instance":
        """Read an instance file. Decimals are read as the exact decimals they spell (0.1 is 1/10)."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{path}: cannot be read: {error}") from None
        if not text.strip():
            raise InvalidInputError(f"{path}: file is empty")
        try:
            data = json.loads(text, parse_float=Fraction, parse_constant=float)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"{path}: not JSON: {error}") from None
        try:
            return cls.from_json(data)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write an instance file that `load` reads back equal."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def _longest(rows: Mapping[str, Any]) -> int:
    return max((key.count(",") + 1 for key in rows if key), default=0)


def _rows_to_json(model: ToyModel) -> dict[str, list[Any]]:
    shape = (model.vocab_size,)
    return {
        context_text(context): [
            str(number) if isinstance(number, Fraction) else float(number) for number in row
        ]
        for length, level in enumerate(model.levels)
        for context, row in zip(np.ndindex(*shape * length), level, strict=True)
    }
