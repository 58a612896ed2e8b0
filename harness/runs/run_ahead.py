"""Work that runs ahead on threads, in a window of bounded length, while the caller uses the results."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from itertools import islice
from typing import Final, TypeVar

from harness.machine.interruption import heed

ABORT_POLL_S: Final = 0.02
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def run_ahead(
    work: Callable[[T], R],
    items: Iterable[T],
    jobs: int,
    *,
    window: int,
    abort: Callable[[], None],
    ordered: bool = True,
    in_batches: bool = False,
    first: int | None = None,
    left_s: Callable[[], float | None] = lambda: None,
) -> Iterator[Iterator[R]]:
    """The results of ``work`` on ``jobs`` threads, in the order of the items, or as they come where not ``ordered``.

    At most ``window`` items are begun and not used up. A permit per item would not do: a late item could overtake the
    one that the caller waits for. Before the first result only ``first`` items begin, so that it is soon there. With
    ``in_batches``, a whole window is done before its first result is given, and used up before the next begins. The
    results end where none comes within ``left_s``; None waits for ever. On exit, ``abort`` is called again and again
    until no thread works any more: work that hangs would be waited for otherwise. Raises KeyboardInterrupt between
    results.
    """
    waiting = iter(items)
    begun: list[Future[R]] = []

    def results(pool: ThreadPoolExecutor) -> Iterator[R]:
        ahead = window if first is None else first
        while True:
            if not (in_batches and begun):
                more = islice(waiting, ahead - len(begun))
                # A thread does not have the caller's context by itself, such as what ``reading`` keeps.
                begun.extend(pool.submit(copy_context().run, work, each) for each in more)
                ahead = window
            if not begun:
                return
            needed = begun if in_batches or not ordered else begun[:1]
            ended = wait(needed, left_s(), ALL_COMPLETED if ordered else FIRST_COMPLETED)
            if ended.not_done if ordered else not ended.done:
                return
            heed()
            future = begun[0] if ordered else next(iter(ended.done))
            yield future.result()
            begun.remove(future)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield results(pool)
        finally:
            running = [future for future in begun if not future.cancel()]
            while not all(future.done() for future in running):
                abort()
                time.sleep(ABORT_POLL_S)
