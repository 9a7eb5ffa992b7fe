"""The plan of a sweep: a task, and the cells of the product of its axes."""

import hashlib
import inspect
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TypeAlias

from spec_oracle.errors import InvalidInputError
from spec_oracle.json_data import Json

Task: TypeAlias = Callable[..., Mapping[str, Json]]
"""It takes the values of a cell and its ``seed``, by name."""

_KEYS = {"task", "axes", "fixed"}
TASKS = {"audit", "efficiency", "prompt"}
"""Names of the functions of `spec_oracle.sweeps.tasks`."""


@dataclass(frozen=True)
class Cell:
    """One point of a sweep: the arguments of its task.

    ``key`` names it: the arguments as JSON, in the order of their names. Its ``seed`` follows from the key
    alone, so that no result depends on where or when a cell is computed.
    """

    arguments: tuple[tuple[str, Json], ...]

    @cached_property
    def key(self) -> str:
        """The arguments as one line of JSON."""
        return json.dumps(dict(sorted(self.arguments)), separators=(",", ":"))

    @property
    def seed(self) -> int:
        """A number in 0..2^63 - 1 of the cell's own."""
        return int.from_bytes(hashlib.sha256(self.key.encode()).digest()[:8]) >> 1


@dataclass(frozen=True)
class Plan:
    """A ``task`` (a name in `TASKS`, or ``module:function``) and its ``axes``, each with its values.

    The task is called with the values of a cell and its ``seed``, by name; it returns what JSON can hold.
    Raises `InvalidInputError` where that cannot be.

    >>> plan = Plan("efficiency", {"verifier": ["token", "block"], "vocab_size": [2, 3]})
    >>> [cell.key for cell in plan.cells()][:1]
    ['{"verifier":"token","vocab_size":2}']
    """

    task: str
    axes: Mapping[str, Sequence[Json]]

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not (self.task in TASKS or self.task.count(":") == 1):
            known = ", ".join(sorted(TASKS))
            raise InvalidInputError(f"task: expected one of {known}, or module:function, got {self.task!r}")
        if not isinstance(self.axes, dict) or not self.axes:
            raise InvalidInputError(f"axes: expected a table of lists, got {self.axes!r}")
        for name, values in self.axes.items():
            if name == "seed":
                more = "the seed follows from the arguments; repeat by an axis instance"
                raise InvalidInputError(f"axes.seed: {more}")
            if not isinstance(values, list) or not values:
                raise InvalidInputError(f"axes.{name}: expected a list of values, got {values!r}")
            if len({json.dumps(value) for value in values}) < len(values):
                raise InvalidInputError(f"axes.{name}: a value comes twice in {values!r}")

    @classmethod
    def load(cls, path: Path) -> "Plan":
        """Read a plan in TOML: ``task``, a table ``axes``, and a table ``fixed`` of single values."""
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{path}: {error}") from error
        if unknown := found.keys() - _KEYS:
            raise InvalidInputError(f"{path}: unknown {sorted(unknown)}; known ones are {sorted(_KEYS)}")
        for key in ("axes", "fixed"):
            if not isinstance(found.get(key, {}), dict):
                raise InvalidInputError(f"{path}: {key}: expected a table, got {found[key]!r}")
        fixed = {name: [value] for name, value in found.get("fixed", {}).items()}
        try:
            plan = cls(found.get("task", ""), {**found.get("axes", {}), **fixed})
            plan.require_arguments()
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None
        return plan

    def require_arguments(self) -> None:
        """Raise `InvalidInputError` where the task does not take an axis, or lacks one."""
        try:
            signature = inspect.signature(_task(self.task))
        except ValueError:  # compiled code tells none
            return
        try:
            signature.bind(**dict.fromkeys(self.axes), seed=0)
        except TypeError as error:
            takes = ", ".join(name for name, one in signature.parameters.items() if name != "seed")
            given = ", ".join(self.axes)
            raise InvalidInputError(f"{self.task}: {error}; it takes {takes}; given: {given}") from None

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    def cells(self) -> Iterator[Cell]:
        """Yield the cells, the last axis fastest."""
        for values in product(*self.axes.values()):
            yield Cell(tuple(zip(self.axes, values, strict=True)))

    def compute(self, cell: Cell) -> dict[str, Json]:
        """Run the task on one cell; return the arguments and what it found, or why it refused."""
        task = _task(self.task)
        try:
            found = task(**dict(cell.arguments), seed=cell.seed)
        except InvalidInputError as error:
            found = {"error": str(error)}
        return {**dict(cell.arguments), **found}


def _task(name: str) -> Task:
    module, _, function = name.partition(":") if ":" in name else ("spec_oracle.sweeps.tasks", "", name)
    try:
        task: Task = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"task: {error}") from error
    return task
