"""Work that runs ahead on threads, in a window of bounded length, while the caller uses the results."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
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
    threads: int,
    *,
    window: int,
    abort: Callable[[], None],
    ordered: bool = True,
    in_batches: bool = False,
) -> Iterator[Iterator[R]]:
    """The results of ``work``, in the order of the items, or as they come where not ``ordered``.

    At most ``window`` items are begun and not used up. A permit per item would not do: a late item could overtake the
    one that the caller waits for. With ``in_batches``, a whole window is done before its first result is given, and
    used up before the next begins. The first batch has one item a thread, so that its result is soon there. On exit,
    ``abort`` is called again and again until no thread works any more: work that hangs would be waited for otherwise.
    Raises KeyboardInterrupt between results.
    """
    waiting = iter(items)
    begun: list[Future[R]] = []

    def results(pool: ThreadPoolExecutor) -> Iterator[R]:
        ahead = threads if in_batches else window
        while True:
            if not (in_batches and begun):
                begun.extend(pool.submit(work, each) for each in islice(waiting, ahead - len(begun)))
                ahead = window
            if not begun:
                return
            for future in begun if in_batches else ():
                future.result()
            heed()
            future = begun[0] if ordered else next(as_completed(begun))
            yield future.result()
            begun.remove(future)

    with ThreadPoolExecutor(threads) as pool:
        try:
            yield results(pool)
        finally:
            running = [future for future in begun if not future.cancel()]
            while not all(future.done() for future in running):
                abort()
                time.sleep(ABORT_POLL_S)
