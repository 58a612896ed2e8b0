"""The parent's side of the child processes: starting, talking and ending, each with a deadline."""

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
from collections.abc import Callable, Collection, Iterable, Iterator
from multiprocessing import forkserver, popen_forkserver, reduction, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import psutil

from harness.catalog.tree import Iteration
from harness.errors import InfrastructureError
from harness.judge.child.brief import OUTPUT_FILE, STACK_FILE, STACK_SIGNAL, Brief
from harness.judge.child.entry import run_baseline, run_contestant, run_referee
from harness.judge.child.preloading import Preloading
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import baseline_module
from harness.judge.facts.problem import Problem
from harness.judge.interpreters import PRELOAD, Interpreter, own_imports, server_pids, using
from harness.judge.messages import VERSION, Confined, Meet, Message, Trouble, Unanswered, receive, send
from harness.judge.steady_addresses import steady
from harness.machine import cores, memory
from harness.machine.files import make_scratch, remove, sweep
from harness.machine.nvml import Device
from harness.records.base import Cause, Confinement

POLL_S: Final = 0.2
END_DEADLINE_S: Final = 10.0
KILL_S: Final = 0.01
LOG_TAIL_BYTES: Final = 2000
STACK_BYTES: Final = 6000
STACK_S: Final = 0.2  # how long a process may take to write its stack
EXIT_UNKNOWN: Final = 255  # multiprocessing's exit code of a process that has lost its forkserver

LONGEST_FOLDER: Final = 50  # characters; a socket's address may have 107
UNLIMITED_BYTES: Final = 1 << 62
SCRATCH_BYTES: Final = 2 << 30  # of one contestant, or half of the free space if that is less
SCRATCH_FILES: Final = 10_000
BLOCK_BYTES: Final = 512  # of st_blocks

_OWN_DESCRIPTORS: Final = Path("/proc/self/fd")
# Warnings without a meaning: killed children leak semaphores, and in namespaces torch counts GPUs without NVML.
SILENCED: Final = ("ignore:resource_tracker:UserWarning", "ignore:Can't initialize NVML:UserWarning")
Side = Literal["baseline", "contestant"]
_starting: Final = threading.Lock()
_ended: Final[dict[int, float]] = {}  # leaders of ended groups that are not known to be empty, and when they ended
_context: Final = multiprocessing.get_context("forkserver")


class Ended(Exception):
    """A process ended, hung or broke the protocol instead of answering."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


def start_forkserver(gpu: Gpu, device: Device | None) -> None:
    """Start the process that all children are forked from; it imports torch and TileLang and touches no device."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()  # torch makes this folder even if unused
    said = filter(None, os.environ.get("PYTHONWARNINGS", "").split(","))
    os.environ["PYTHONWARNINGS"] = ",".join(dict.fromkeys((*said, *SILENCED)))
    if gpu.is_cpu:
        os.environ["OMP_NUM_THREADS"] = "1"
    elif device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device.uuid
    own_imports.expect(Path(_choose_folder_of_sockets(), "preloading.txt"))
    _context.set_forkserver_preload(PRELOAD)
    resource_tracker.ensure_running()  # first, since it unblocks what is blocked
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the forkserver ignores it
    try:
        _ensure_forkserver()  # here, not by a thread of the pool: it lives as long as its parent thread
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sweep(_folder_of_sockets())


def start_interpreter(interpreter: Interpreter) -> None:
    """Start another interpreter's forkserver, after ``start_forkserver``; it lives as long as the calling thread."""
    with _starting, using(interpreter, Path(_choose_folder_of_sockets())):
        _ensure_forkserver()


def _ensure_forkserver() -> None:
    """Start the forkserver if it does not run, and make a descriptor of this process the only way to it.

    Its socket executes what it is sent. The name goes, and Linux still finds the socket by a descriptor of its file.
    """
    with steady():
        forkserver.ensure_running()
    server: Any = forkserver._forkserver
    named = Path(server._forkserver_address)
    if not named.is_relative_to(_OWN_DESCRIPTORS):
        server._forkserver_address = str(_OWN_DESCRIPTORS / str(os.open(named, os.O_PATH | os.O_CLOEXEC)))
        named.unlink()


def end_forkserver() -> None:
    """Kill each forkserver and all that came from it; a thread that waits for its imports goes on at once."""
    for server in server_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)


def await_ended() -> None:
    """Wait until no process of an earlier measurement lives. Raises InfrastructureError if one does not end."""
    leaders = dict(_ended)
    until = time.monotonic() + END_DEADLINE_S
    while left := _of_groups(leaders):
        if time.monotonic() > until:
            pids = ", ".join(map(str, left))
            raise InfrastructureError(f"process {pids} of an earlier measurement does not end; end it, then run again")
        time.sleep(POLL_S)
    for leader in leaders:
        _ended.pop(leader, None)


def _of_groups(leaders: dict[int, float]) -> list[int]:
    """The living processes of these groups that are older than the end of their leader, as PIDs come again."""
    found = []
    for process, leader in _living(leaders):
        with contextlib.suppress(psutil.Error):
            if process.create_time() < leaders[leader]:
                found.append(process.pid)
    return found


def _living(groups: Collection[int]) -> Iterator[tuple[psutil.Process, int]]:
    """The living processes of these groups, each with its group."""
    for pid in psutil.pids() if groups else ():
        with contextlib.suppress(OSError, psutil.Error):
            group = os.getpgid(pid)
            if group in groups and (process := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                yield process, group


class _Popen(popen_forkserver.Popen):
    """Serialises ``poll()``: only one thread can read the exit code from its pipe.

    Every start of a process polls all others. A second thread would read the exit code of a lost forkserver.
    """

    def __init__(self, process: BaseProcess) -> None:
        self._turn = threading.Lock()
        super().__init__(process)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        with self._turn:
            return super().poll(flag)


class Process(ForkServerProcess):
    """A process of the forkserver that several threads may poll."""

    @staticmethod
    def _Popen(process: BaseProcess) -> popen_forkserver.Popen:  # noqa: N802  # multiprocessing's own name
        return _Popen(process)


class Worker:
    """A child process, the channel to it, and the limits it lives under."""

    def __init__(
        self,
        role: str,
        body: Callable[..., object],
        args: tuple[object, ...],
        memory_bytes: int,
        interpreter: Interpreter | None = None,
    ) -> None:
        ours, theirs = _context.Pipe(duplex=True)
        self.interpreter = interpreter
        self.role = role
        self.channel = ours
        self._memory_bytes = memory_bytes
        self._paused = False
        self._working_pid = 0  # of a process in namespaces, which the forkserver's child only waits for
        self.process = Process(target=body, args=(*args, theirs), daemon=True)
        with _hidden_main(), using(interpreter, Path(_choose_folder_of_sockets())):
            try:
                _ensure_forkserver()
                self.process.start()
            except (EOFError, OSError):
                if interpreter is None:
                    raise
                why = interpreter.imports.last_words() or "it said nothing"
                raise Ended(
                    Cause.LOAD, f"{interpreter.name} ended while it imported torch or TileLang: {why}"
                ) from None
        theirs.close()

    @property
    def pid(self) -> int:
        """The PID of the process that works, which leads a group of its own."""
        assert self.process.pid is not None
        return self._working_pid or self.process.pid

    def tell(self, message: Message) -> None:
        try:
            send(self.channel, message)
        except OSError:
            raise self._ended() from None

    def hear(self, kinds: Any, deadline_s: float, beside: "Iterable[Worker]" = ()) -> Any:
        """The next message. Raises Ended if none comes in time. ``beside`` are held to their limits meanwhile."""
        until = time.monotonic() + deadline_s
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise Ended(Cause.TIMEOUT, f"the {self.role} did not answer within {deadline_s:g} s")
            if wait([self.channel, self.process.sentinel], min(left, POLL_S)):
                break
            for worker in (self, *beside):
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
        self._imports.proven()
        return message

    def check(self) -> None:
        """Raise Ended if the process exceeds its limits."""
        if memory_bytes(self.pid, self.process.pid) > self._memory_bytes:
            raise Ended(Cause.OUT_OF_MEMORY, f"the {self.role} took more than {self._memory_bytes >> 20} MiB of memory")

    def pause(self) -> None:
        """Stop the process, so that it disturbs no measurement before its turn."""
        self._paused = self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._paused:
            self._paused = not self._signal(signal.SIGCONT)

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    @property
    def crashed(self) -> bool:
        """Whether it ended, and not by itself after it had told why."""
        return not self.alive and self.process.exitcode != 0

    @property
    def orphaned(self) -> bool:
        """Whether the forkserver, which knows how the process ended, is gone."""
        return self.process.exitcode == EXIT_UNKNOWN

    def kill(self) -> None:
        """Kill the process and its group, from any thread; a keeper of namespaces then ends by itself."""
        if not self._signal(signal.SIGKILL):
            self.process.kill()

    def end(self) -> None:
        """Kill the process and wait until it is gone, and all in its namespaces."""
        self.kill()
        self.process.join(END_DEADLINE_S)
        self.process.kill()
        self.channel.close()
        _ended[self.pid] = time.time()

    def end_children(self) -> None:
        """Kill every process that this one started, orphans too: none can leave the group.

        Again until none lives, since one may fork just before it dies.
        """
        until = time.monotonic() + END_DEADLINE_S
        while time.monotonic() < until:
            started = [process.pid for process, _ in _living({self.pid}) if process.pid != self.pid]
            if not started:
                return
            for pid in started:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(KILL_S)

    def await_end(self) -> None:
        """Wait a little for an end that is under way."""
        self.process.join(2)

    def fate(self) -> str:
        """How the process ended, in words."""
        self.await_end()
        code = self.process.exitcode
        if code is None:
            return "closed its channel"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code} before it had answered"

    @property
    def _imports(self) -> Preloading:
        return own_imports if self.interpreter is None else self.interpreter.imports

    def _ended(self) -> Ended:
        """The end of the process; raises InfrastructureError if its imports failed, since every process fails so."""
        reason = self._imports.failure()
        if reason and self.interpreter is not None:
            return Ended(Cause.LOAD, f"torch or TileLang cannot be imported in {self.interpreter.name}: {reason}")
        if reason:
            raise InfrastructureError(f"torch or TileLang cannot be imported: {reason}; try make clean, then again")
        return Ended(Cause.CRASH, f"the {self.role} {self.fate()}")

    def _signal(self, number: int) -> bool:
        for send_signal in (os.killpg, os.kill):  # the group first: it outlives the process that made it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                send_signal(self.pid, number)
                return True
        return False  # neither the group nor the process is there


class SideProcess(Worker):
    """A process that launches blocks on the referee's orders, over a channel of their own."""

    side: Side
    opponent = ""
    stands_in = ""  # in the library's place, the name of what does
    prepares = False  # whether it may prepare inputs outside what is timed
    confinement: Confinement | None = None

    def __init__(
        self, body: Callable[..., object], brief: Brief, memory_bytes: int, interpreter: Interpreter | None = None
    ) -> None:
        ours, theirs = socket.socketpair()
        self._meeting = ours
        try:
            with contextlib.closing(Connection(theirs.detach())) as channel:
                super().__init__(self.side, body, (brief, channel), memory_bytes, interpreter)
        except BaseException:
            ours.close()
            raise

    def hear(self, kinds: Any, deadline_s: float, beside: Iterable[Worker] = ()) -> Any:
        self._await_confinement(deadline_s)
        return super().hear(kinds, deadline_s, beside)

    def _await_confinement(self, deadline_s: float) -> None:
        if self.confinement is None:
            confined: Confined | Trouble = super().hear(Confined | Trouble, deadline_s)
            if isinstance(confined, Trouble):
                raise Ended(Cause.LOAD, f"the {self.role} could not start: {confined.reason}")
            if confined.version != VERSION:
                raise Ended(
                    Cause.LOAD,
                    f"the {self.role} speaks version {confined.version} of the messages, and this tilebench {VERSION}; "
                    "run one version of tilebench, on both sides",
                )
            self._working_pid, self.confinement = confined.pid, confined.level

    def introduce(self, referee: "Referee", deadline_s: float) -> None:
        """Give the referee its end of the channel."""
        self._await_confinement(deadline_s)
        referee.tell(Meet(self.side, self.pid, deadline_s, self.stands_in, self.prepares))
        reduction.send_handle(referee.channel, self._meeting.fileno(), referee.pid)
        self._meeting.close()

    def end(self) -> None:
        super().end()
        self._meeting.close()


class BaselineProcess(SideProcess):
    """The process of the baseline."""

    side = "baseline"
    prepares = True

    def __init__(self, root: Path, problem: Problem, gpu: Gpu) -> None:
        brief = Brief(root, problem, gpu, measuring_core(gpu), baseline_module(root, problem.operator) or Path())
        super().__init__(run_baseline, brief, UNLIMITED_BYTES)

    def trouble(self) -> str | None:
        """Why it failed, in its own words; None if it has said nothing."""
        try:
            told: Trouble = self.hear(Trouble, POLL_S)
        except Ended:
            return None
        return told.reason


class Contestant(SideProcess):
    """The process of one iteration."""

    side: Side = "contestant"
    body: Callable[..., object] = staticmethod(run_contestant)

    def __init__(
        self,
        root: Path,
        path: Path,
        problem: Problem,
        gpu: Gpu,
        builders: int = 1,
        interpreter: Interpreter | None = None,
        *,
        launches: bool = False,
    ) -> None:
        self.scratch = make_scratch("contestant")
        # The parent keeps these descriptors: the contestant may put a pipe or a link in a file's place.
        self._output = os.open(self.scratch / OUTPUT_FILE, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._stack = os.open(self.scratch / STACK_FILE, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._descriptors = [self._output, self._stack]
        self._scratch_bytes = min(SCRATCH_BYTES, shutil.disk_usage(self.scratch).free // 2)
        self._core = measuring_core(gpu)
        brief = Brief(root, problem, gpu, None, path, self.scratch, self.opponent, launches)
        try:
            super().__init__(self.body, brief, memory_limit_bytes(builders), interpreter)
        except BaseException:  # the forkserver is gone, or the run is being stopped
            self._tidy()
            raise

    def resume(self) -> None:
        """Give it the device: the memory that builders shared, and on a CPU the measuring core and no other."""
        self._memory_bytes = memory_limit_bytes()
        if self._core is not None:
            cores.pin(self.pid, self._core)
        super().resume()

    def check(self) -> None:
        super().check()
        size_bytes, files = self.scratch_use()
        if size_bytes > self._scratch_bytes:
            raise Ended(Cause.OUT_OF_DISK, f"the {self.role} wrote more than {self._scratch_bytes >> 20} MiB of files")
        if files > SCRATCH_FILES:
            raise Ended(Cause.OUT_OF_DISK, f"the {self.role} made more than {SCRATCH_FILES:,} files")

    def scratch_use(self) -> tuple[int, int]:
        """Bytes and number of files in its scratch folder, counted up to the limit."""
        size_bytes = files = 0
        waiting = [str(self.scratch)]
        while waiting and files <= SCRATCH_FILES:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    with contextlib.suppress(OSError):
                        size_bytes += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        return size_bytes, files

    def output(self, most_bytes: int = LOG_TAIL_BYTES) -> str:
        """The end of its output."""
        size_bytes = os.fstat(self._output).st_size
        tail = os.pread(self._output, most_bytes, max(0, size_bytes - most_bytes))
        return tail.decode(errors="replace")

    def stack(self) -> str:
        """Where its Python code is, or was when it crashed; empty if it does not say. A live process is stopped."""
        if self.alive:
            with contextlib.suppress(OSError):
                os.kill(self.pid, STACK_SIGNAL)
            self._signal(signal.SIGCONT)
            wait([self.process.sentinel], STACK_S)
            self._signal(signal.SIGSTOP)
        return os.pread(self._stack, STACK_BYTES, 0).decode(errors="replace")

    def end(self) -> None:
        super().end()
        self._tidy()

    def _tidy(self) -> None:
        # Each is closed once: by a second end its number may be that of another thread's file.
        while self._descriptors:
            os.close(self._descriptors.pop())
        remove(self.scratch)


class OpponentProcess(Contestant):
    """The process of an opponent, on either side: our code, a stranger's package, and so a contestant's limits."""

    prepares = True

    def __init__(self, root: Path, entry: Iteration, gpu: Gpu, side: Side = "contestant") -> None:
        self.side, self.opponent, self.stands_in = side, entry.name, entry.name
        super().__init__(root, entry.path, entry.problem, gpu)
        self.role = f"opponent {entry.name}"


class Rival(Contestant):
    """The process of an iteration under another interpreter, on either side."""

    def __init__(
        self, root: Path, iteration: Iteration, gpu: Gpu, interpreter: Interpreter, side: Side, builders: int = 1
    ) -> None:
        self.side, self.stands_in = side, f"{iteration.name} in {interpreter.name}"
        super().__init__(root, iteration.path, iteration.problem, gpu, builders, interpreter, launches=True)


class Referee(Worker):
    """The trusted process of one problem."""

    body: Callable[..., object] = staticmethod(run_referee)

    def __init__(self, root: Path, problem: Problem, gpu: Gpu) -> None:
        self.problem = problem
        super().__init__("referee", self.body, (Brief(root, problem, gpu, measuring_core(gpu)),), UNLIMITED_BYTES)


def _choose_folder_of_sockets() -> str:
    """A folder that a later run can sweep; multiprocessing's own would stay behind after a kill."""
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if "tempdir" not in config:
        config["tempdir"] = str(make_scratch("s", _folder_of_sockets()))
        atexit.register(shutil.rmtree, config["tempdir"], ignore_errors=True)
    return str(config["tempdir"])


def _folder_of_sockets() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_FOLDER else "/tmp"


def memory_bytes(pid: int, keeper: int | None = None) -> int:
    """What a process and its children hold: mapped, and in files without a name, such as those of memfd_create.

    Orphans count where it has namespaces: the other child of their ``keeper`` is process 1, which takes them over.
    """
    mapped, nameless = 0, dict[tuple[int, int], int]()
    first = [each for each in _children(keeper) if each != pid] if keeper not in (None, pid) else []
    orphans = (each for one in first for orphan in _children(one) for each in _family(orphan))
    for each in (*_family(pid), *orphans):
        with contextlib.suppress(OSError, psutil.Error):
            mapped += psutil.Process(each).memory_info().rss
            for descriptor in Path(f"/proc/{each}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found = descriptor.stat()
                    if not found.st_nlink:
                        nameless[found.st_dev, found.st_ino] = found.st_blocks * BLOCK_BYTES
    return mapped + sum(nameless.values())


def _family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for child in _children(pid):
        yield from _family(child)


def _children(pid: int | None) -> Iterator[int]:
    """By the lists of its threads: psutil would read every process of the machine."""
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            yield from map(int, children.read_text().split())


def memory_limit_bytes(builders: int = 1) -> int:
    """Host memory of one contestant: half of the machine's, shared by all that build at once."""
    return memory.total_bytes() // 2 // builders


def measuring_core(gpu: Gpu) -> int | None:
    """The core of all that measures on ``cpu``: the last, since the parent has the first; None on a GPU."""
    return max(os.sched_getaffinity(0)) if gpu.is_cpu else None


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Keep multiprocessing from running the parent's main file in a child: by hand, that is an iteration."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
