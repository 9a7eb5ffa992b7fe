"""Sweeps: one task over every combination of its axes, resumable.

Cells go out to workers, and come back, in order, into a file that survives a kill.

The file grows by whole cells in the order of the plan, so it is the same bytes however the work was spread,
and a run that was cut off goes on where the file ends.
"""

import hashlib
import inspect
import json
import math
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from spec_oracle.arrays import Json
from spec_oracle.errors import InvalidInputError
from verifiers import drafting_of

Task: TypeAlias = Callable[..., Mapping[str, Json]]
"""It takes the values of a cell and its ``seed``, by name."""

_KEYS = {"task", "axes", "fixed"}
TASKS = {"audit", "efficiency", "prompt"}
"""Names of functions below, each a task."""

Tell: TypeAlias = Callable[[str, int, int], None]


Cell: TypeAlias = dict[str, Json]
"""One point of a sweep: the arguments of its task, by name."""


def key_of(cell: Cell) -> str:
    """Return the arguments of a cell as one line of JSON, in the order of their names."""
    return json.dumps(dict(sorted(cell.items())), separators=(",", ":"))


def seed_of(cell: Cell) -> int:
    """Return a number in 0..2^63 - 1 of the cell's own: where and when it is computed changes nothing."""
    return int.from_bytes(hashlib.sha256(key_of(cell).encode()).digest()[:8]) >> 1


@dataclass(frozen=True)
class Plan:
    """A ``task`` (a name in `TASKS`, or ``module:function``) and its ``axes``, each with its values.

    The task is called with the values of a cell and its ``seed``, by name; it returns what JSON can hold.
    Raises `InvalidInputError` where that cannot be.

    >>> plan = Plan("efficiency", {"verifier": ["token", "block"], "vocab_size": [2, 3]})
    >>> next(plan.cells())
    {'verifier': 'token', 'vocab_size': 2}
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
            yield dict(zip(self.axes, values, strict=True))


def compute(task: str, cell: Cell) -> dict[str, Json]:
    """Run a task on one cell; return the arguments and what it found, or why it refused."""
    function = _task(task)
    try:
        return {**cell, **function(**cell, seed=seed_of(cell))}
    except InvalidInputError as error:
        return {**cell, "error": str(error)}


def _task(name: str) -> Task:
    module, _, function = name.partition(":") if ":" in name else (__name__, "", name)
    try:
        task: Task = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"task: {error}") from error
    return task


@contextmanager
def rows_for(
    page: Path | None, plan: Plan, jobs: int, progress: Tell = lambda *_: None, *, backend: str = "loky"
) -> Iterator[list[dict[str, Json]]]:
    """Run a sweep and yield its rows, for the ``page`` made of them; ``jobs`` and ``backend`` as for `run`.

    They lie beside it, in ``PAGE.rows``, until the block ends: what was cut off goes on there. Raises
    `InvalidInputError` for arguments that a cell refused.
    """
    if page and not page.parent.is_dir():
        raise InvalidInputError(f"output: no folder {page.parent}")
    with TemporaryDirectory() as scratch:
        file = Path(f"{page}.rows") if page else Path(scratch, "rows")
        run(plan, file, jobs=jobs, backend=backend, progress=progress)
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            if "error" in row:
                file.unlink()
                raise InvalidInputError(row["error"])
        yield rows
        file.unlink()


def run(
    plan: Plan, output: Path, *, jobs: int = 1, backend: str = "loky", progress: Tell = lambda *_: None
) -> int:
    """Compute the cells of ``plan`` that are not yet in ``output``, a file of JSON lines.

    Returns how many cells refused their arguments, in this run or before: their rows hold an ``error``.

    ``backend`` is one of joblib's: "loky" for ``jobs`` processes, "threading" for tasks that start a process
    of their own. Raises `InvalidInputError` where the file holds another sweep.
    """
    from joblib import Parallel, delayed

    done = _finished(output, plan)
    left = islice(plan.cells(), done, None)
    parallel = Parallel(n_jobs=jobs, backend=backend, return_as="generator")
    with renewed_quietly(), output.open("a", encoding="utf-8") as file:
        rows = parallel(delayed(compute)(plan.task, cell) for cell in left)
        for number, row in enumerate(rows, start=done + 1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            progress("cells", number, len(plan))
    with output.open(encoding="utf-8") as file:
        return sum("error" in json.loads(line) for line in file)


def _finished(lines: Path, plan: Plan) -> int:
    """Return how many cells are in the file; cut off what was not written to its end."""
    if not lines.exists():
        return 0
    with lines.open("rb+") as file:
        done = 0
        for cell in plan.cells():
            start, line = file.tell(), file.readline()
            if not line.endswith(b"\n"):
                file.truncate(start)
                return done
            row = json.loads(line)
            if {name: row.get(name) for name in cell} != cell:
                raise InvalidInputError(
                    f"{lines}: line {done + 1} is not of this sweep, which has {key_of(cell)} there"
                )
            done += 1
        if file.readline():
            raise InvalidInputError(f"{lines}: has more than the {done} cells of this sweep")
    return done


@contextmanager
def renewed_quietly() -> Iterator[None]:
    """Let joblib replace processes that were long idle, or grew, without a warning.

    It warns in the thread that hands out work. Where warnings are errors that thread ends, and the run waits
    for ever.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield


def efficiency(
    *,
    seed: int,
    verifier: str,
    vocab_size: int,
    draft_length: int,
    instance: int = 0,
    optimum: bool = False,
    num_paths: int = 1,
    kind: str = "dirichlet",
    concentration: float = 1.0,
    agreement: float = 0.0,
) -> dict[str, float]:
    """Return the exact block efficiency of a verifier on one random instance.

    ``instance`` is the seed of `Instance.random`, the same for all verifiers, and what follows ``optimum``
    its other arguments; ``optimum`` adds the most that any verifier could reach with its drafts.
    """
    from spec_oracle.audit.subjects import named_verifier
    from spec_oracle.exact import emission_law
    from spec_oracle.optimum import multi_path_optimum
    from spec_oracle.toy import Instance

    del seed
    toy = Instance.random(
        vocab_size,
        draft_length,
        seed=instance,
        num_paths=num_paths,
        kind=kind,
        concentration=concentration,
        agreement=agreement,
    )
    rule = named_verifier(verifier)
    law = emission_law(rule, toy)
    found = {"block_efficiency": law.block_efficiency, "total_variation": law.total_variation}
    if optimum:
        found["optimum"] = multi_path_optimum(toy, drafting=drafting_of(rule)).value
    return {name: float(value) for name, value in found.items()}


def prompt(
    *,
    seed: int,
    prompt: str,
    names: Sequence[str],
    optimum: bool,
    target: str,
    draft: str,
    device: str = "cpu",
    **sizes: object,
) -> dict[str, Json]:
    """Return the figures of the named verifiers on the tree of two language models after one prompt.

    The models are named, and ``sizes`` of the tree given, as in `spec_oracle.language_models.cuts`.
    """
    from spec_oracle.language_models.cuts import cut_instance
    from spec_oracle.language_models.efficiency import prompt_efficiencies

    del seed
    instance = cut_instance(prompt, target=target, draft=draft, device=device, **sizes)
    figures = prompt_efficiencies(prompt, instance, names, optimum=optimum)
    return {"figures": [asdict(row) for row in figures]}


def audit(*, seed: int, subject: str, **options: object) -> dict[str, Json]:
    """Return the verdict on one subject, named as for ``spec-oracle audit``; options as of `AuditOptions`.

    The false-alarm rate ``alpha`` is that of one cell.
    """
    from spec_oracle.audit import AuditOptions
    from spec_oracle.audit import audit as audit_of

    made: Callable[..., AuditOptions] = AuditOptions  # which validates its fields itself
    (report,) = audit_of(subject, options=made(**{"seed": seed, **options})).subjects
    return {
        "verdict": report.verdict.value,
        "evidence": report.evidence and report.evidence.value,
        "checks": {check.name: check.status.value for check in report.checks},
    }
