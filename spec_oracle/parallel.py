"""The same work on many items, in several processes: the same results in the same order, sooner."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """Yield ``work(item)`` for every item, in order; computed by ``jobs`` processes, or here by one.

    Fresh processes, not forks: array libraries do not survive a fork of their threads. So ``work`` and the
    items must be importable by name, or data. The first exception is raised; what has not begun is dropped.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
