"""Namespaces: a process that sees no other process, network, shared memory or mount than its own.

A tool such as bubblewrap would start each contestant by ``exec``, and lose the forkserver's seconds of imports.
"""

import ctypes
import os
import re
import resource
import signal
import struct
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

from harness.judge.child.devices import needed

_NEW_USER, _NEW_PID, _NEW_NETWORK, _NEW_IPC, _NEW_MOUNTS = 0x10000000, 0x20000000, 0x40000000, 0x08000000, 0x00020000
_ALL: Final = _NEW_USER | _NEW_PID | _NEW_NETWORK | _NEW_IPC | _NEW_MOUNTS
_NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _BIND, _MOVE, _RECURSIVE, _SLAVE = (2, 4, 8, 1 << 12, 1 << 13, 1 << 14, 1 << 19)
_MOUNT_SETATTR, _AT_RECURSIVE, _ATTRIBUTE_READ_ONLY = 442, 0x8000, 1  # the same on every architecture
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_MOST_DESCRIPTORS: Final = 1 << 20
_FAILED: Final = 70
MOST_PROCESSES: Final = 4096  # with their threads

_libc: Final = ctypes.CDLL(None, use_errno=True)


@cache
def offered() -> bool:
    """Whether Linux gives this process all of them; a process of its own tries. Containers often have none."""
    trial = os.fork()
    if not trial:
        with suppress(BaseException):
            os._exit(_FAILED if enter() is None else 0)
        os._exit(_FAILED)
    return os.waitpid(trial, 0)[1] == 0


def enter(writable: tuple[Path, ...] = ()) -> int | None:
    """Go on in namespaces of its own, as a grandchild of the present parent; None, and no change, if refused.

    Returns this process's new PID as others see it. File systems are read-only but for ``writable``; Landlock alone
    would let it change the mode, owner and times of a file.

    A PID namespace holds only children. So this process stays outside as their keeper: it waits, and ends as the
    grandchild ends. The first child is the namespace's process 1, and all in the namespace end with it.
    """
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_ALL):
        return None
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    ended, lives = os.pipe()
    first = os.fork()
    if not first:
        _end_with_the_keeper(ended)
    inner = os.fork()
    if inner:
        _keep(first, inner, lives)
    os.close(ended)
    os.close(lives)
    outer = int(Path("/proc/self").readlink().name)  # as the present /proc has it
    _mount(writable)
    _limit_processes()
    return outer


def _limit_processes() -> None:
    """Linux has had such a limit for each PID namespace since 6.14; before, it would be the machine's."""
    if tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 14):
        Path("/proc/sys/kernel/pid_max").write_text(str(MOST_PROCESSES))


def _end_with_the_keeper(ended: int) -> NoReturn:
    """The body of process 1. The keeper alone holds the pipe's other end, so it closes when the keeper dies."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # closes its memory to the namespace's other processes
    _close_all_but(ended)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Linux then removes orphans that end
    os.read(ended, 1)
    os._exit(0)


def _keep(first: int, inner: int, lives: int) -> NoReturn:
    """The body of the keeper: it ends as ``inner`` did, when the namespace is empty."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _close_all_but(lives)
    _, status = os.waitpid(inner, 0)
    os.close(lives)
    os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _mount(writable: tuple[Path, ...]) -> None:
    """All is read-only but ``writable``; /proc shows this namespace, and /dev the needed devices alone."""
    closed = _NO_SUID | _NO_DEVICES | _NO_PROGRAMS
    _checked(_libc.mount(b"none", b"/", None, _SLAVE | _RECURSIVE, None))
    _mount_devices()
    for path in writable:
        _checked(_libc.mount(bytes(path), bytes(path), None, _BIND, None))
    _set_attributes(Path("/"), set_=_ATTRIBUTE_READ_ONLY)
    for path in writable:
        _set_attributes(path, clear=_ATTRIBUTE_READ_ONLY)
    driver = Path("/proc/driver/nvidia")
    seen = os.open(driver, os.O_PATH) if driver.is_dir() else None  # a container's shows its own GPUs only
    _checked(_libc.mount(b"proc", b"/proc", b"proc", closed, None))
    if seen is not None:
        _checked(_libc.mount(b"/proc/self/fd/%d" % seen, bytes(driver), None, _BIND | _RECURSIVE, None))
        os.close(seen)


def _mount_devices() -> None:
    """CUDA finds no GPU where it may not open another's file, but does where that file is not there."""
    new = Path(tempfile.gettempdir())  # covered until the new folder moves
    _checked(_libc.mount(b"tmpfs", bytes(new), b"tmpfs", _NO_SUID | _NO_PROGRAMS, b"size=64k,mode=755"))
    for each in needed():
        seen, here = os.open(each, os.O_PATH), new / each.name
        here.mkdir() if each.is_dir() else here.touch()
        _checked(_libc.mount(b"/proc/self/fd/%d" % seen, bytes(here), None, _BIND | _RECURSIVE, None))
        os.close(seen)
    (new / "shm").mkdir()
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (new / name).symlink_to(f"/proc/self/fd{target}")
    _checked(_libc.mount(bytes(new), b"/dev", None, _MOVE, None))


def _set_attributes(path: Path, *, set_: int = 0, clear: int = 0) -> None:
    """Change a mount and all beneath it."""
    change = struct.pack("=4Q", set_, clear, 0, 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, -1, bytes(path), _AT_RECURSIVE, change, ctypes.c_size_t(len(change))))


def _close_all_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, _MOST_DESCRIPTORS)


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
