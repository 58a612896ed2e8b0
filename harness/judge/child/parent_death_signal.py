"""Loaded first into the forkserver: it serves the run alone, dies with it, and leaves no traceback when it is stopped.

What asks for a process sends code to run. So the kernel's word on the sender's PID counts, which no process can forge.

A terminal sends Ctrl-C to the forkserver and its children too; only the run answers it. A run may also stop
halfway through starting a child. The forkserver then drops the child, and goes on.
"""

import ctypes
import errno
import os
import pickle
import signal
import socket
import struct
from multiprocessing import reduction, spawn

PR_SET_PDEATHSIG = 1
PEER = struct.Struct("3i")  # struct ucred: PID, user, group

_run = os.getppid()
_receive_fds = reduction.recvfds
_run_child = spawn._main


def receive_fds(sock: socket.socket, size: int) -> list[int]:
    """multiprocessing's, with the one error that its forkserver survives: a stranger, or a run that left at once."""
    pid, _, _ = PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if pid != _run:
        raise ConnectionAbortedError(errno.ECONNABORTED, "another process than the run asks for a child")
    try:
        return _receive_fds(sock, size)
    except EOFError:
        raise ConnectionAbortedError(errno.ECONNABORTED, "the run stopped before it had sent anything") from None


def run_child(fd: int, parent_sentinel: int) -> int:
    """multiprocessing's; quiet where the run stopped before it had sent all that the child needs."""
    reduction.recvfds = _receive_fds  # a child knows its run by another PID, or none
    try:
        return int(_run_child(fd, parent_sentinel))
    except (EOFError, pickle.UnpicklingError):
        os._exit(1)


ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # children too, until their set-up is done
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the run blocks it while it starts the forkserver
reduction.recvfds = receive_fds
spawn._main = run_child
