"""The body of every child process: set up, work, report a failure, end."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from harness.judge.child.brief import Brief
from harness.judge.messages import Message, send


@contextmanager
def child_body(
    brief: Brief,
    parent: Connection,
    failure: Callable[[BaseException], Message] | None = None,
    set_up: Callable[[Brief], Message | None] | None = None,
) -> Iterator[None]:
    """Set the process up, run the ``with`` block, and end the process.

    ``failure`` makes the message that tells the parent of an exception; without it the process ends in silence.
    ``set_up`` is one of ``harness.judge.child.setup``, by default ``set_up_child``; the parent is told what it returns.
    The process ends by ``os._exit``, because TVM can crash at interpreter exit, and an exit would wait for threads that
    hang.
    """
    from harness.judge.child.setup import set_up_child

    told: Message | None
    try:
        told = (set_up or set_up_child)(brief)
        if told is not None:
            send(parent, told)
        yield
    except BaseException as error:
        if failure is not None:
            with suppress(OSError):  # the parent may be gone: its end of the channel is closed then
                send(parent, failure(error))
    finally:
        os._exit(0)
