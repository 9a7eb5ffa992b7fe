"""Running a sweep: cells go out to workers, and come back, in order, into a file that survives a kill.

The file grows by whole cells in the order of the plan, so it is the same bytes however the work was spread,
and a run that was cut off goes on where the file ends.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from spec_oracle.errors import InvalidInputError
from spec_oracle.json_data import Json
from spec_oracle.sweeps.plan import Cell, Plan

_MOST_AT_ONCE = 16
"""The most cells that a worker is given at a time: what is sent around costs more than a small cell."""

_PACKS = 512
"""Few cells are likely to be large ones: there are about so many packs before one holds several."""

Tell: TypeAlias = Callable[[str, int, int], None]


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
    at_once = min(_MOST_AT_ONCE, 1 + len(plan) // _PACKS)
    packs = iter(lambda: tuple(islice(left, at_once)), ())
    parallel = Parallel(n_jobs=jobs, backend=backend, return_as="generator")
    with renewed_quietly(), output.open("a", encoding="utf-8") as file:
        for rows in parallel(delayed(_compute)(plan, pack) for pack in packs):
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            done += len(rows)
            progress("cells", done, len(plan))
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
            if {name: row.get(name) for name, _ in cell.arguments} != dict(cell.arguments):
                raise InvalidInputError(
                    f"{lines}: line {done + 1} is not of this sweep, which has {cell.key} there"
                )
            done += 1
        if file.readline():
            raise InvalidInputError(f"{lines}: has more than the {done} cells of this sweep")
    return done


def _compute(plan: Plan, cells: tuple[Cell, ...]) -> list[dict[str, Json]]:
    return list(map(plan.compute, cells))


@contextmanager
def renewed_quietly() -> Iterator[None]:
    """Let joblib replace processes that were long idle, or grew, without a warning.

    It warns in the thread that hands out work. Where warnings are errors that thread ends, and the run waits
    for ever.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield
