"""Confinement of a process that runs foreign code, by Linux's own means: capabilities, Landlock and seccomp.

It needs no privilege and drops those that the process has. If the running Linux lacks a part (Landlock before 5.13,
signal scopes before 6.12), the rest still holds; ``confinement`` says which parts there are.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.judge.child import devices
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

# Calls that escape the process group, the core, the stop or the referee's clock, reach another process, or change its
# priority: their (x86_64, aarch64) numbers. A timer or a message queue can send the SIGCONT that undoes a stop. A key
# stays in the keyring of all processes of the run.
_ESCAPES: Final = {
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "connect": (42, 203),
    "timer_create": (222, 107),
    "mq_notify": (244, 184),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
}
# Calls that are refused by one argument, with its position and the refused values: F_SETSIG chooses the signal of
# asynchronous I/O, PR_SET_PDEATHSIG that at a parent's death. F_SETLEASE and F_NOTIFY ask for one about a file, and a
# lease makes others wait. AF_INET, AF_INET6 and AF_VSOCK send datagrams without a connect.
_REFUSED_BY_ARGUMENT: Final = {
    "fcntl": ((72, 25), 1, (10, 1024, 1026)),
    "prctl": ((157, 167), 0, (1,)),
    "socket": ((41, 198), 0, (2, 10, 40)),
}
_PRLIMIT: Final = (302, 261)  # refused for every process but the caller, which is 0
_PROCESSES: Final = {"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281)}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_CLONE_THREAD: Final = 0x10000
_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_EPERM, _ENOSYS = 1, 38
_X32: Final = 0x40000000  # from here on x86-64 numbers its calls with 32-bit pointers

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
    machine = _machine()
    if machine is not None:
        _seccomp([*_denied(_ESCAPES), *_refused_by_argument(_column(machine))])


def no_locks() -> None:
    """Allow no lock of a file from now on: to open it for reading is enough, and a stopped process keeps its locks."""
    _seccomp(_denied({"flock": (73, 32)}))


def no_more_processes() -> None:
    """Allow no new process from now on: the CPU clock of this process would not count it."""
    machine = _machine()
    if machine is None:
        return
    column = _column(machine)
    clone, clone3 = _CLONE[column], _CLONE3[column]
    _seccomp(
        [
            *_denied(_PROCESSES),
            _jump_unless(clone3, 1),
            _answer(_ENOSYS),  # libc then falls back to clone; a filter can see its flags
            _jump_unless(clone, 4),
            _load(16),  # the low word of the first argument: the flags
            _instruction(0x45, _CLONE_THREAD, 1, 0),  # jset
            _answer(_EPERM),
            _load(0),
        ]
    )


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


def _denied(calls: Mapping[str, tuple[int, int | None]]) -> list[bytes]:
    machine = _machine()
    if machine is None:
        return []
    numbers = [each[_column(machine)] for each in calls.values()]
    return [part for number in numbers if number is not None for part in (_jump_unless(number, 1), _answer(_EPERM))]


def _refused_by_argument(column: int) -> list[bytes]:
    """Instructions that look at the low word of one argument, then load the call's number again."""
    body = []
    for numbers, position, values in _REFUSED_BY_ARGUMENT.values():
        refuse = [part for value in values for part in (_jump_unless(value, 1), _answer(_EPERM))]
        body += [_jump_unless(numbers[column], 2 + len(refuse)), _load(16 + 8 * position), *refuse, _load(0)]
    pass_own = _instruction(0x15, 0, 1, 0)
    return [*body, _jump_unless(_PRLIMIT[column], 4), _load(16), pass_own, _answer(_EPERM), _load(0)]


def _seccomp(body: list[bytes]) -> None:
    machine = _machine()
    if machine is None:
        return
    program = [
        _load(4),
        _instruction(0x15, _AUDIT_ARCH[machine], 1, 0),  # jeq: another architecture's numbers mean other calls
        _answer(_EPERM),  # as of int 0x80, which a 64-bit process may use too
        _load(0),
        *([_instruction(0x35, _X32, 0, 1), _answer(_EPERM)] if machine == "x86_64" else []),  # jge
        *body,
        _instruction(0x06, 0x7FFF0000, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    filter_ = struct.pack("@HP", len(program), ctypes.addressof(code))
    _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_), 0, 0)


def _machine() -> str | None:
    machine = platform.machine()
    return machine if machine in _AUDIT_ARCH else None


def _column(machine: str) -> int:
    return ("x86_64", "aarch64").index(machine)


def _instruction(code: int, value: int, when_true: int, when_false: int) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)


def _load(offset: int) -> bytes:
    return _instruction(0x20, offset, 0, 0)


def _jump_unless(number: int, skip: int) -> bytes:
    return _instruction(0x15, number, 0, skip)


def _answer(error: int) -> bytes:
    return _instruction(0x06, 0x00050000 | error, 0, 0)
