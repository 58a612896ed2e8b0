"""Processes: the parent's side of a contestant and of a referee, with deadlines on everything."""

import atexit
import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, popen_forkserver, reduction, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import psutil

from harness.errors import InfrastructureError
from harness.judge.child import preloading
from harness.judge.child.entry import Brief, run_contestant, run_opponent, run_referee
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.judge.messages import Meet, Message, Unanswered, receive, send
from harness.machine import memory
from harness.machine.files import make_scratch, sweep
from harness.machine.nvml import Device
from harness.records.results import Cause

POLL_S: Final = 0.2
LOG_TAIL_BYTES: Final = 2000
EXIT_UNKNOWN: Final = 255  # multiprocessing's, of a process whose forkserver is gone

LONGEST_FOLDER: Final = 50  # characters; the address of a socket may have 107
UNLIMITED_BYTES: Final = 1 << 62
SCRATCH_BYTES: Final = 2 << 30  # of one contestant; half of what is free where that is less
SCRATCH_FILES: Final = 10_000

# Who is killed cannot give back what its libraries took, and Python's tracker, a process of its own, would tell a user.
LEFT_SEMAPHORES: Final = "ignore:resource_tracker:UserWarning"
_starting: Final = threading.Lock()
_context: Final = multiprocessing.get_context("forkserver")


class Ended(Exception):
    """A process ended, hung or broke the protocol instead of answering."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


def start_forkserver(gpu: Gpu, device: Device | None) -> None:
    """Import torch and TileLang once, in a process that later ones are forked from and that touches no device."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()  # torch makes this folder, used or not
    said = os.environ.get("PYTHONWARNINGS", "")
    if LEFT_SEMAPHORES not in said:  # a tuning starts it before each rung
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (said, LEFT_SEMAPHORES)))
    if gpu.is_cpu:
        os.environ["OMP_NUM_THREADS"] = "1"
    elif device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device.uuid
    preloading.expect(_choose_folder_of_sockets())
    _context.set_forkserver_preload(["harness.judge.child.parent_death_signal", "harness.judge.child.preloaded"])
    resource_tracker.ensure_running()  # first, since it unblocks what is blocked
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the forkserver ignores it
    try:
        forkserver.ensure_running()  # here, not by a thread of the pool: it lives as long as its parent thread
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sweep(_folder_of_sockets())


class _Popen(popen_forkserver.Popen):
    """The exit code comes once, through a pipe, and every start of a process asks for that of all others: in turns.

    Two threads that ask at once would else leave one of them with that of a forkserver that is gone.
    """

    def __init__(self, process: BaseProcess) -> None:
        self._turn = threading.Lock()
        super().__init__(process)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        with self._turn:
            return super().poll(flag)


class Process(ForkServerProcess):
    """A process of the forkserver, watched by several threads."""

    @staticmethod
    def _Popen(process: BaseProcess) -> popen_forkserver.Popen:  # noqa: N802  # multiprocessing's own name
        return _Popen(process)


class Worker:
    """A child process, the channel to it, and the limits it lives under."""

    def __init__(self, role: str, body: Callable[..., object], args: tuple[object, ...], memory_bytes: int) -> None:
        ours, theirs = _context.Pipe(duplex=True)
        self.role = role
        self.channel = ours
        self._memory_bytes = memory_bytes
        self._paused = False
        self.process = Process(target=body, args=(*args, theirs), daemon=True)
        with _hidden_main():
            self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def tell(self, message: Message) -> None:
        try:
            send(self.channel, message)
        except OSError:
            raise self._ended() from None

    def hear(self, kinds: Any, deadline_s: float, beside: "Worker | None" = None) -> Any:
        """The next message; raises Ended where there is none in time. ``beside`` is held to its memory limit too."""
        until = time.monotonic() + deadline_s
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise Ended(Cause.TIMEOUT, f"the {self.role} did not answer within {deadline_s:g} s")
            if wait([self.channel, self.process.sentinel], min(left, POLL_S)):
                break
            for worker in (self, beside):
                if worker is not None:
                    worker.check()
        try:
            if not self.channel.poll(0):
                raise self._ended()
            message = receive(self.channel, kinds, max(0.0, until - time.monotonic()))
        except Unanswered:
            raise Ended(Cause.TIMEOUT, f"the {self.role} sent half an answer and stopped") from None
        except (EOFError, OSError):
            raise self._ended() from None
        except msgspec.MsgspecError:
            raise Ended(Cause.CRASH, f"the {self.role} sent something that is no answer") from None
        preloading.proven()
        return message

    def check(self) -> None:
        """Raise Ended where it takes more than it may."""
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self.pid).memory_info().rss
            if used > self._memory_bytes:
                raise Ended(
                    Cause.OUT_OF_MEMORY, f"the {self.role} took more than {self._memory_bytes >> 20} MiB of memory"
                )

    def pause(self) -> None:
        """Stop it where it stands, so that it disturbs no measurement before its turn."""
        self._paused = self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._paused:
            self._paused = not self._signal(signal.SIGCONT)

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    @property
    def orphaned(self) -> bool:
        """Whether the forkserver, which would know how it ended, is gone."""
        return self.process.exitcode == EXIT_UNKNOWN

    def kill(self) -> None:
        """Kill it with all its process group; from any thread."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.process.kill()

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        self.process.join(10)
        self.channel.close()

    def end_children(self) -> None:
        """Kill what the process has started."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()

    def fate(self) -> str:
        """How the process ended, in words."""
        self.process.join(2)
        code = self.process.exitcode
        if code is None:
            return "closed its channel"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code} before it had answered"

    def _ended(self) -> Ended:
        """Raises InfrastructureError where no process could have done better."""
        if reason := preloading.failure():
            raise InfrastructureError(f"torch or TileLang cannot be imported: {reason}; try make clean, then again")
        return Ended(Cause.CRASH, f"the {self.role} {self.fate()}")

    def _signal(self, number: int) -> bool:
        try:
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)
            else:  # it has not made its own group yet
                os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class Side(Worker):
    """A process that launches what the referee orders, over a channel between the two."""

    side: Literal["baseline", "contestant"]

    def __init__(self, body: Callable[..., object], brief: Brief, memory_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        self._meeting = ours
        with contextlib.closing(Connection(theirs.detach())) as channel:
            super().__init__(self.side, body, (brief, channel), memory_bytes)

    def introduce(self, referee: "Referee", deadline_s: float) -> None:
        """Give the referee its end of the channel between the two."""
        referee.tell(Meet(self.side, self.pid, deadline_s))
        reduction.send_handle(referee.channel, self._meeting.fileno(), referee.pid)
        self._meeting.close()

    def end(self) -> None:
        super().end()
        self._meeting.close()


class Opponent(Side):
    """The process of the baseline."""

    side = "baseline"

    def __init__(self, root: Path, problem: Problem, gpu: Gpu) -> None:
        super().__init__(run_opponent, Brief(root, problem, gpu, measuring_core(gpu)), UNLIMITED_BYTES)


class Contestant(Side):
    """The process of one iteration."""

    side = "contestant"
    body: Callable[..., object] = staticmethod(run_contestant)

    def __init__(self, root: Path, path: Path, problem: Problem, gpu: Gpu, builders: int = 1) -> None:
        self.scratch = make_scratch("contestant")
        self._scratch_bytes = min(SCRATCH_BYTES, shutil.disk_usage(self.scratch).free // 2)
        brief = Brief(root, problem, gpu, measuring_core(gpu), path, self.scratch)
        super().__init__(self.body, brief, memory_limit_bytes(builders))

    def resume(self) -> None:
        """Its turn on the device: what the others share while they build, it may now have alone."""
        self._memory_bytes = memory_limit_bytes()
        super().resume()

    def check(self) -> None:
        super().check()
        size_bytes, files = self.scratch_use()
        if size_bytes > self._scratch_bytes:
            raise Ended(Cause.OUT_OF_DISK, f"the {self.role} wrote more than {self._scratch_bytes >> 20} MiB of files")
        if files > SCRATCH_FILES:
            raise Ended(Cause.OUT_OF_DISK, f"the {self.role} made more than {SCRATCH_FILES:,} files")

    def scratch_use(self) -> tuple[int, int]:
        """Bytes and number of the files in its scratch folder; not counted beyond what it may have."""
        size_bytes = files = 0
        for folder, folders, names in os.walk(self.scratch):
            files += len(folders) + len(names)
            if files > SCRATCH_FILES:
                break
            for name in names:
                with contextlib.suppress(OSError):
                    size_bytes += (Path(folder) / name).lstat().st_size
        return size_bytes, files

    def output(self) -> str:
        """The end of what it printed."""
        with contextlib.suppress(OSError), (self.scratch / "output.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def end(self) -> None:
        super().end()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Referee(Worker):
    """The trusted process of one problem."""

    def __init__(self, root: Path, problem: Problem, gpu: Gpu) -> None:
        self.problem = problem
        super().__init__("referee", run_referee, (Brief(root, problem, gpu, measuring_core(gpu)),), UNLIMITED_BYTES)


def _choose_folder_of_sockets() -> str:
    """multiprocessing's own would stay behind when the run is killed, and nobody could tell whose it was."""
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if "tempdir" not in config:
        config["tempdir"] = str(make_scratch("s", _folder_of_sockets()))
        atexit.register(shutil.rmtree, config["tempdir"], ignore_errors=True)
    return str(config["tempdir"])


def _folder_of_sockets() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_FOLDER else "/tmp"


def memory_limit_bytes(builders: int = 1) -> int:
    """Host memory that one contestant may take: half of what there is here; those that build at once share that."""
    return memory.total_bytes() // 2 // builders


def measuring_core(gpu: Gpu) -> int | None:
    """On ``cpu`` both sides take turns on one core, the last, and leave the first to the parent."""
    return max(os.sched_getaffinity(0)) if gpu.is_cpu else None


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """multiprocessing runs the parent's main file again in a child; an iteration run by hand is that main file."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
