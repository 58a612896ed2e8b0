"""Confinement of a process that runs foreign code, by Linux's own means: capabilities, Landlock and seccomp.

It needs no privilege and drops those that the process has. If the running Linux lacks a part (Landlock before 5.13,
signal scopes before 6.12), the rest still holds; ``confinement`` says which parts there are.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.judge.child import devices
from harness.judge.child.system_calls import allowed_ranges, number_of
from harness.records.base import Confinement

_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 22, 24, 38
_LAST_CAPABILITY: Final = 63
_CAPABILITY_VERSION_3: Final = 0x20080522

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
# Access rights of linux/landlock.h that change a file system, by the version that brought them.
_WRITE_FILE: Final = 1 << 1
_REMOVE_AND_MAKE: Final = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_TCP: Final = 0b11  # bind, connect: version 4
_SCOPES: Final = 0b11  # abstract sockets and signals stay within the process and its children: version 6
TRUNCATION_REFUSED, SIGNALS_SCOPED = 3, 6

# Calls that are refused by one argument, with its position and the refused values: F_SETSIG chooses the signal of
# asynchronous I/O, PR_SET_PDEATHSIG that at a parent's death. F_SETLEASE and F_NOTIFY ask for one about a file, and a
# lease makes others wait. AF_INET, AF_INET6 and AF_VSOCK send datagrams without a connect.
_REFUSED_BY_ARGUMENT: Final = {"fcntl": (1, (10, 1024, 1026)), "prctl": (0, (1,)), "socket": (0, (2, 10, 40))}
_STARTS_A_PROCESS: Final = ("fork", "vfork", "execve", "execveat")
_CLONE_THREAD: Final = 0x10000
_CLONE_NAMESPACES: Final = 0x7E020000
_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_EPERM, _ENOSYS = 1, 38
_NEW_CALLS: Final = 424  # from here on numbers are the same on every architecture, and libc can do without the calls
_X32: Final = 0x40000000  # from here on x86-64 numbers its calls with 32-bit pointers
_JUMP_IF, _JUMP_FROM, _JUMP_IF_SET = 0x15, 0x35, 0x45
_ALLOW: Final = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)

_libc: Final = ctypes.CDLL(None, use_errno=True)


def confine(writable: tuple[Path, ...]) -> None:
    """Drop privileges; from now on write only beneath ``writable`` and to needed devices, and reach no process."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(
            _PR_CAPBSET_DROP, capability, 0, 0, 0
        )  # refused without the privilege to give up, and beyond the last
    _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), struct.pack("=6I", *[0] * 6))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _landlock((*writable, *devices.needed(), Path("/proc/self")))
    if machine := _machine():
        _seccomp([*_refused_by_argument(machine), *_refused_but(allowed_ranges(machine))])


def no_locks() -> None:
    """Allow no lock of a file from now on: to open it for reading is enough, and a stopped process keeps its locks."""
    if machine := _machine():
        _seccomp(_refused(("flock",), machine))


def no_more_processes() -> None:
    """Allow no new process from now on: the CPU clock of this process would not count it."""
    if machine := _machine():
        flags_of_clone = _instruction(_JUMP_IF_SET, _CLONE_THREAD, 1, 0), _answer(_EPERM)
        _seccomp([*_refused(_STARTS_A_PROCESS, machine), *_looking_at("clone", machine, 0, flags_of_clone)])


def level(*, namespaces: bool) -> Confinement:
    """What this machine's Linux holds a confined process to, in or outside of namespaces of its own.

    Landlock refuses to shorten a file since version 3. Signals it refuses since version 6; a PID namespace does so too.
    """
    version = landlock_version() if _machine() else 0
    if namespaces and version >= TRUNCATION_REFUSED:
        return Confinement.NAMESPACES
    return Confinement.SYSTEM_CALLS if version >= SIGNALS_SCOPED else Confinement.LIMITS


def confinement() -> str:
    """The parts that this machine's Linux offers, in words."""
    version = landlock_version()
    parts = [f"Landlock version {version}" if version else "no Landlock"]
    if 0 < version < SIGNALS_SCOPED:
        parts.append("signals not scoped")
    parts.append("seccomp" if _machine() else "no seccomp")
    return ", ".join(parts)


def landlock_version() -> int:
    """The running Linux's Landlock version; 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)))


def _landlock(writable: tuple[Path, ...]) -> None:
    version = landlock_version()
    if not version:
        return
    rights = _WRITE_FILE | _REMOVE_AND_MAKE
    rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= TRUNCATION_REFUSED else 0)
    attributes = struct.pack("=QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= SIGNALS_SCOPED else 0)
    size = 24 if version >= SIGNALS_SCOPED else 16 if version >= 4 else 8
    ruleset = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return
    for path in writable:
        with suppress(OSError):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = rights if path.is_dir() else rights & (_WRITE_FILE | _TRUNCATE)
            _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, place), 0)
            os.close(place)
    _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


# Seccomp: a filter of classic BPF over (number, architecture, instruction pointer, arguments) of each system call.


def _refused(calls: Iterable[str], machine: str) -> list[bytes]:
    numbers = [number for call in calls if (number := number_of(call, machine)) is not None]
    return [part for number in numbers for part in (_jump_unless(number, 1), _answer(_EPERM))]


def _refused_but(ranges: Iterable[tuple[int, int]]) -> list[bytes]:
    """Instructions that allow these numbers. Of a new call libc hears that this Linux has none, and does without."""
    body = []
    for start, end in ranges:
        body += [_instruction(_JUMP_FROM, start, 0, 2), _instruction(_JUMP_FROM, end, 1, 0), _ALLOW]
    return [*body, _instruction(_JUMP_FROM, _NEW_CALLS, 0, 1), _answer(_ENOSYS), _answer(_EPERM)]


def _refused_by_argument(machine: str) -> list[bytes]:
    """Instructions that refuse a call by a word of its arguments."""
    body = []
    for call, (position, values) in _REFUSED_BY_ARGUMENT.items():
        refuse = [part for value in values for part in (_jump_unless(value, 1), _answer(_EPERM))]
        body += _looking_at(call, machine, position, refuse)
    others = _instruction(_JUMP_IF, 0, 1, 0), _answer(_EPERM)  # 0 is the caller
    new_namespaces = _instruction(_JUMP_IF_SET, _CLONE_NAMESPACES, 0, 1), _answer(_EPERM)
    limits = _looking_at("prlimit64", machine, 0, others)
    return [*body, *limits, *_looking_at("clone", machine, 0, new_namespaces)]


def _looking_at(call: str, machine: str, position: int, body: Sequence[bytes]) -> list[bytes]:
    """The body, for one call, with the low word of one argument; then the call's number is loaded again."""
    number = number_of(call, machine)
    assert number is not None, f"{machine} has no {call}"
    return [_jump_unless(number, 2 + len(body)), _load(16 + 8 * position), *body, _load(0)]


def _seccomp(body: list[bytes]) -> None:
    machine = _machine()
    if machine is None:
        return
    program = [
        _load(4),
        _instruction(_JUMP_IF, _AUDIT_ARCH[machine], 1, 0),  # another architecture's numbers mean other calls
        _answer(_EPERM),  # as of int 0x80, which a 64-bit process may use too
        _load(0),
        *([_instruction(_JUMP_FROM, _X32, 0, 1), _answer(_EPERM)] if machine == "x86_64" else []),
        *body,
        _ALLOW,
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    filter_ = struct.pack("@HP", len(program), ctypes.addressof(code))
    _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_), 0, 0)


def _machine() -> str | None:
    machine = platform.machine()
    return machine if machine in _AUDIT_ARCH else None


def _instruction(code: int, value: int, when_true: int, when_false: int) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _load(offset: int) -> bytes:
    return _instruction(0x20, offset, 0, 0)


def _jump_unless(number: int, skip: int) -> bytes:
    return _instruction(_JUMP_IF, number, 0, skip)


def _answer(error: int) -> bytes:
    return _instruction(0x06, 0x00050000 | error, 0, 0)
