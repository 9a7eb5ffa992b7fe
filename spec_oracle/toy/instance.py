"""An instance: target, draft, draft length and number of paths; its file format; random instances."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Json
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.toy.model import Row, ToyModel, context_text, read_rational, require_memory
from spec_oracle.validation import (
    require_instance_of,
    require_one_of,
    require_positive,
    require_share,
    require_whole,
)

if TYPE_CHECKING:
    from hypothesis.vendor.pretty import RepresentationPrinter

MOST_PATHS: Final = 1_000
"""Draft paths of an instance: more have no distribution that can be computed."""

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
        if require_whole(self.num_paths, "num_paths") > MOST_PATHS:
            raise InvalidInputError(f"num_paths: expected at most {MOST_PATHS:,}, got {self.num_paths}")
        if self.target.vocab_size != self.draft.vocab_size:
            sizes = f"{self.draft.vocab_size} tokens, the target {self.target.vocab_size}"
            raise InvalidInputError(f"draft: has {sizes}")

    def __repr__(self) -> str:
        """Show the instance file: what Hypothesis prints of a failing example can be audited."""
        return f"Instance.from_json({json.dumps(self.to_json())})"

    def _repr_pretty_(self, printer: "RepresentationPrinter", cycle: bool) -> None:  # noqa: ARG002, FBT001  # Hypothesis calls it
        printer.text(repr(self))

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return self.target.vocab_size

    @cached_property
    def exact(self) -> "Instance":
        """The same instance in rationals."""
        return replace(self, target=self.target.exact, draft=self.draft.exact)

    @cached_property
    def floats(self) -> "Instance":
        """The same instance in float64."""
        return replace(self, target=self.target.floats, draft=self.draft.floats)

    @cached_property
    def digest(self) -> str:
        """A short name of the instance by its rows and sizes, equal for equal instances only."""
        text = json.dumps(self.exact.to_json(), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def after(self, context: Sequence[int]) -> "Instance":
        """Return the instance of what follows ``context``."""
        return replace(self, target=self.target.after(context), draft=self.draft.after(context))

    def with_paths(self, num_paths: int) -> "Instance":
        """Return the same models with another number of draft paths."""
        return replace(self, num_paths=num_paths)

    def rounded(self, denominator: int) -> "Instance":
        """Return the instance with every probability a multiple of 1/denominator (largest remainders)."""
        target, draft = self.target.rounded(denominator), self.draft.rounded(denominator)
        return replace(self, target=target, draft=draft)

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
        """Draw an instance of the given kind (`KINDS`), with other rows after every context.

        ``concentration`` > 0 makes rows flat (large) or peaked (small). ``agreement`` in [0, 1] mixes the
        target into the draft: 0 leaves them as drawn, 1 makes them equal. Raises `InvalidInputError` for
        other values and for sizes that do not fit in memory.

        >>> Instance.random(3, 2, num_paths=2, kind="sparse", seed=1).vocab_size
        3
        """
        require_whole(num_paths, "num_paths")
        rng = np.random.default_rng(require_whole(seed, "seed", 0))
        require_one_of(kind, "kind", KINDS)
        require_memory(require_whole(vocab_size, "vocab_size"), require_whole(draft_length, "draft_length"))
        require_positive(concentration, "concentration")
        require_share(agreement, "agreement")
        levels = [KINDS[kind](vocab_size, vocab_size**d, rng, concentration) for d in range(draft_length + 1)]
        mixed = [agreement * target + (1 - agreement) * draft for target, draft in levels[:-1]]
        return cls(
            ToyModel.from_levels([target for target, _ in levels], name="target"),
            ToyModel.from_levels(mixed, name="draft"),
            draft_length,
            num_paths,
        )

    @classmethod
    def from_json(cls, data: object) -> "Instance":
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
        models = []
        for key, least in (("target", draft_length), ("draft", draft_length - 1)):
            if not isinstance(data[key], Mapping):
                raise InvalidInputError(f"{key}: expected an object from contexts to rows")
            order = max([least, *(context.count(",") + 1 for context in data[key] if context)])
            models.append(ToyModel.from_conditionals(data[key], order=order, name=key))
        found = models[0].vocab_size
        if (said := data.get("vocab_size", found)) != found:
            raise InvalidInputError(f"vocab_size: is {said}, but the target's rows have {found} entries")
        return cls(models[0], models[1], draft_length, num_paths)

    def to_json(self) -> dict[str, Json]:
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
            data = json.loads(
                text,
                parse_float=_as_spelt,
                parse_int=_as_spelt,
                parse_constant=float,
                object_pairs_hook=_each_once,
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise InvalidInputError(f"{path}: not JSON: {error}") from None
        try:
            return cls.from_json(data)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write an instance file that `load` reads back equal."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of the file; of a key that appears twice nobody knows which value is meant."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidInputError(f"key {key!r} appears twice")
        found[key] = value
    return found


def _as_spelt(text: str) -> int | Fraction | str:
    """Return a number of the file, a whole one as int; what cannot be read is refused where it is used."""
    try:
        number = read_rational(text)
    except ValueError:
        return text
    return number if "." in text or "e" in text.lower() else int(number)


def _rows_to_json(model: ToyModel) -> dict[str, list[str | float]]:
    shape = (model.vocab_size,)
    return {
        context_text(context): [str(one) if isinstance(one, Fraction) else float(one) for one in row]
        for length, level in enumerate(model.levels)
        for context, row in zip(np.ndindex(*shape * length), level, strict=True)
    }


Pair: TypeAlias = tuple[Floats, Floats]
"""Rows of target and draft, [count, V] each."""

Kind: TypeAlias = Callable[[int, int, np.random.Generator, float], Pair]


def _dirichlet(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Floats:
    return rng.dirichlet(np.full(vocab, concentration), size=count)


def _independent(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """Target and draft rows drawn apart."""
    return _dirichlet(vocab, count, rng, concentration), _dirichlet(vocab, count, rng, concentration)


def _zipf(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """Zipf-like rows, each over its own order of the tokens; the draft is flatter."""
    ranks = np.argsort(rng.random((count, vocab)), axis=1) + 1.0
    target, draft = ranks ** -(1.0 / concentration), ranks ** -(0.5 / concentration)
    return target / target.sum(1, keepdims=True), draft / draft.sum(1, keepdims=True)


def _reversed(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """The draft ranks the tokens the other way round: acceptance is rare, residuals are large."""
    target = np.sort(_dirichlet(vocab, count, rng, concentration), axis=1)
    order = np.argsort(rng.random((count, vocab)), axis=1)
    return np.take_along_axis(target, order, 1), np.take_along_axis(target[:, ::-1], order, 1)


def _disjoint(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """No token in common: nothing may be accepted."""
    if vocab < 2:
        raise InvalidInputError(f"vocab_size: disjoint supports need at least 2 tokens, got {vocab}")
    target, draft = _independent(vocab, count, rng, concentration)
    side = np.argsort(rng.random((count, vocab)), axis=1) < (vocab + 1) // 2
    target, draft = np.where(side, target, 0.0), np.where(side, 0.0, draft)
    return target / target.sum(1, keepdims=True), draft / draft.sum(1, keepdims=True)


def _point_mass(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """A deterministic draft, as n-gram and greedy drafters are."""
    target = _dirichlet(vocab, count, rng, concentration)
    return target, np.eye(vocab)[rng.integers(vocab, size=count)]


def _equal(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """The draft is the target: everything must be accepted."""
    target = _dirichlet(vocab, count, rng, concentration)
    return target, target.copy()


def _sparse(vocab: int, count: int, rng: np.random.Generator, concentration: float) -> Pair:
    """Rows with zeros in both models, as top-k and top-p leave them."""
    target, draft = _independent(vocab, count, rng, concentration)
    return _thinned(target, rng), _thinned(draft, rng)


def _thinned(rows: Floats, rng: np.random.Generator) -> Floats:
    dropped = (rng.random(rows.shape) < 0.3) & (rows < rows.max(1, keepdims=True))
    kept = np.where(dropped, 0.0, rows)
    thinned: Floats = kept / kept.sum(1, keepdims=True)
    return thinned


KINDS: Final[dict[str, Kind]] = {
    "dirichlet": _independent,
    "zipf": _zipf,
    "reversed": _reversed,
    "disjoint": _disjoint,
    "point-mass": _point_mass,
    "equal": _equal,
    "sparse": _sparse,
}
"""Kinds of random target and draft models: each hides or shows other families of defects."""
