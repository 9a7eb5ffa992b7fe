"""Subjects side by side, each in a process of its own kind: the same reports in the same order, sooner.

What a subject is given (instances, seed, share of alpha) does not depend on which process audits it or when.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """Return ``work(item)`` for every item, in order, computed by up to ``jobs`` processes.

    Fresh processes, not forks: array libraries do not survive a fork of their threads. So ``work`` and the
    items must be importable by name, or data. The first exception is raised; what has not begun is dropped.
    """
    with ProcessPoolExecutor(min(jobs, len(items)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, item): item for item in items}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                progress(f"[{done}/{len(items)}] {futures[future]} done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]
