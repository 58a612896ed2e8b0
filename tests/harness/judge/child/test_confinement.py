"""Confinement: a process that runs foreign code can still do its work, and nothing to others."""

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.judge.child.confinement import confinement, landlock_version
from tests.harness.checkout import ROOT

needs_landlock = pytest.mark.skipif(landlock_version() < 6, reason=f"this Linux has {confinement()}")
needs_seccomp = pytest.mark.skipif("no seccomp" in confinement(), reason=f"this machine has {confinement()}")


def confined(tmp_path: Path, body: str) -> str:
    """What a confined process prints: ``attempt(call)`` says "done" or the error's name."""
    program = f"""
import os, signal, socket, subprocess, sys, threading
from pathlib import Path
from harness.judge.child.confinement import confine, no_locks, no_more_processes

scratch = Path({str(tmp_path)!r}) / "scratch"
scratch.mkdir()
outside = Path({str(tmp_path)!r}) / "outside.txt"
outside.write_text("mine")

def attempt(call):
    try:
        call()
        print("done")
    except OSError as error:
        print(type(error).__name__)

confine((scratch,))
{textwrap.dedent(body)}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_landlock
def test_it_writes_into_its_scratch_and_nowhere_else(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        attempt(lambda: (scratch / "mine.txt").write_text("x"))
        attempt(lambda: Path("/dev/null").write_text("x"))
        attempt(lambda: Path("/dev/shm/mine").write_text("x"))
        attempt(lambda: outside.read_text())
        attempt(lambda: outside.write_text("x"))
        attempt(lambda: outside.unlink())
        attempt(lambda: os.rename(outside, scratch / "stolen"))
        attempt(lambda: os.truncate(outside, 0))
        attempt(lambda: (outside.parent / "new.txt").write_text("x"))
        """,
    )
    assert said.split() == ["done"] * 2 + ["PermissionError"] + ["done"] + ["PermissionError"] * 5
    assert (tmp_path / "outside.txt").read_text() == "mine"


@needs_landlock
def test_it_signals_and_reads_no_other_process(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        attempt(lambda: os.kill(os.getppid(), 0))
        attempt(lambda: os.kill(os.getpid(), 0))
        attempt(lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
        attempt(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1))
        """,
    )
    assert said.split() == ["PermissionError", "done", "PermissionError", "PermissionError"]


@needs_seccomp
def test_it_cannot_leave_its_group_nor_its_core(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        attempt(lambda: os.sched_setaffinity(0, {0}))
        attempt(os.setsid)
        attempt(lambda: os.setpgid(0, 0))
        attempt(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        """,
    )
    assert said.split() == ["PermissionError"] * 3 + ["done"]


@needs_seccomp
def test_it_reaches_no_socket_timer_limit_or_priority_of_others(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        import ctypes, fcntl, resource
        libc = ctypes.CDLL(None, use_errno=True)
        def raw(call, *arguments):
            if call(*arguments) < 0:
                raise OSError(ctypes.get_errno(), "refused")
        ours, theirs = socket.socketpair()
        attempt(lambda: socket.socket(socket.AF_UNIX).connect("/tmp/nobody"))
        attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        attempt(lambda: socket.socket(socket.AF_INET6))
        attempt(lambda: socket.socket(socket.AF_VSOCK))
        attempt(lambda: raw(libc.timer_create, 1, None, ctypes.byref(ctypes.c_void_p())))
        attempt(lambda: raw(libc.prctl, 1, signal.SIGCONT, 0, 0, 0))
        attempt(lambda: fcntl.fcntl(ours, 10, signal.SIGCONT))
        attempt(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (0, 0)))
        attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
        attempt(lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
        attempt(lambda: fcntl.fcntl(ours, fcntl.F_GETFL))
        attempt(lambda: raw(libc.prctl, 15, b"name", 0, 0, 0))
        """,
    )
    assert said.split() == ["PermissionError"] * 9 + ["done"] * 3


@needs_seccomp
def test_a_call_that_it_does_not_need_is_refused(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        import ctypes, errno
        from harness.judge.child.system_calls import MACHINES, number_of
        libc = ctypes.CDLL(None, use_errno=True)
        def told(number, *arguments):
            failed = libc.syscall(number, *arguments) < 0
            print(errno.errorcode[ctypes.get_errno()] if failed else "done")
        own = MACHINES.index(os.uname().machine)
        for numbers in ((272, 97), (29, 194), (308, 268)):  # unshare, shmget, setns
            told(numbers[own], 0, 0, 0)
        for number in (425, 435, 900):  # io_uring_setup, clone3, and one that Linux does not have yet
            told(number, 0, 0)
        new_user = 0x10000000
        told(number_of("clone", MACHINES[own]), new_user | signal.SIGCHLD, 0, 0, 0, 0)
        told(number_of("getpid", MACHINES[own]))
        """,
    )
    assert said.split() == ["EPERM"] * 3 + ["ENOSYS"] * 3 + ["EPERM", "done"]


@needs_seccomp
def test_then_it_starts_no_more_processes_but_threads(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        no_more_processes()
        attempt(os.fork)
        attempt(lambda: os.posix_spawn("/bin/true", ["true"], {}))
        attempt(lambda: os.execv("/bin/true", ["true"]))
        thread = threading.Thread(target=print, args=("thread",))
        thread.start()
        thread.join()
        """,
    )
    assert said.split() == ["PermissionError"] * 3 + ["thread"]


def test_it_keeps_no_privilege(tmp_path: Path) -> None:
    said = confined(tmp_path, 'print(Path("/proc/self/status").read_text())')
    status = dict(line.split(":\t", 1) for line in said.strip().splitlines() if ":\t" in line)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert int(status["CapBnd"], 16) == 0


CALL_OF_32_BITS = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b8{number:02x}000000cd80c3"))  # mov eax, number; int 0x80; ret
answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
FORK_32, GETPID_32 = 2, 20


@needs_seccomp
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit calls are those of x86-64")
def test_32_bit_calls_are_no_way_around_it(tmp_path: Path) -> None:
    unconfined = subprocess.run([sys.executable, "-c", CALL_OF_32_BITS.format(number=GETPID_32)], check=False)
    if unconfined.returncode < 0:
        pytest.skip("this Linux has no 32-bit calls")
    call = CALL_OF_32_BITS.format(number=FORK_32)
    told = "if answer:\n    print('child' if answer > 0 else 'refused')"
    said = confined(tmp_path, f"no_more_processes()\n{call}\n{told}")
    assert said == "refused\n"


@needs_seccomp
def test_an_iteration_locks_no_file(tmp_path: Path) -> None:
    said = confined(
        tmp_path,
        """
        import fcntl
        with outside.open() as records:
            attempt(lambda: fcntl.flock(records, fcntl.LOCK_SH))
            no_locks()
            attempt(lambda: fcntl.flock(records, fcntl.LOCK_EX))
        """,
    )
    assert said.split() == ["done", "PermissionError"]
