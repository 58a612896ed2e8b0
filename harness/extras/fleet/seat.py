"""A seat: it has one GPU of one host, and runs one ladder after another there, each in a tree of its own.

It knows nothing of Ray, which only carries the calls. It starts no process by fork, since Ray's workers have threads.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
import psutil

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, last_line, printable
from harness.extras.fleet import pace, station
from harness.extras.fleet.assignment import Assignment
from harness.extras.fleet.pace import ChipPace
from harness.extras.fleet.station import Station
from harness.machine import files
from harness.machine.cores import slice_of
from harness.machine.identity import lives, living
from harness.machine.nvml import released
from harness.machine.repository import copy, link, take_over
from harness.runs.gathering import LOOSE, RECORDS, SOURCES
from harness.runs.turn import AFTER

SAID: Final = "said.txt"
START: Final = "start.json"
BEGIN: Final = str(Path(__file__).with_name("begin.py"))  # by its path: without site-packages it takes 20 ms
END_S: Final = 6.0  # for a run that was asked to stop


class Start(msgspec.Struct):
    """What a tree began with: its process, as ``identity.living`` names it, and the sizes of its files."""

    gpu: str
    process: str
    have: dict[str, int]


@dataclass(frozen=True, slots=True)
class News:
    """What the files of a tree gained, by their paths below ``tuning/<gpu>``: whole lines, or files that have none.

    Code None: it still runs.
    """

    key: str
    grown: dict[str, bytes]
    exit_code: int | None = None


@dataclass
class Seat:
    """``root`` is the driver's checkout, used if this host has it. ``lane`` of ``lanes`` counts the seats of a host.

    Without ``uses_device`` it is a host for builds, and its GPU is of no matter. With an ``image`` all that it starts
    runs in a container of its own; of the host nothing but Python, Docker and the checkout is used then.
    """

    gpu: str
    notebook: str
    root: str
    lane: int
    lanes: int
    uses_device: bool = True
    image: str | None = None
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def station(self) -> Station:
        if self.image is None:
            return station.here(self._repository, self.gpu, uses_device=self.uses_device)
        try:
            said = self._said("-m", station.__name__, self.gpu, str(int(self.uses_device)))
        except InfrastructureError as error:
            return Station(socket.gethostname(), "", fault=f"image {self.image}: {error}")
        found = msgspec.json.decode(said, type=Station)
        device = found.device and replace(found.device, index=self.lane)  # a container counts its own GPU alone
        return replace(found, host=socket.gethostname(), device=device)

    def pace(self) -> ChipPace:
        """How fast its GPU is now. Raises InfrastructureError where that cannot be measured."""
        said = self._said("-m", pace.__name__, self.gpu)
        released(gpus.resolve(self.gpu)[1])
        return msgspec.json.decode(said, type=ChipPace)

    def _said(self, *words: str) -> bytes:
        """What a program of the harness writes to stdout. Raises InfrastructureError with its last line if it fails."""
        with files.scratch("asked") as folder:
            self._make_tree(root := folder / "tree")  # a folder that a container's user may enter
            done = subprocess.run(
                self._command(*words),
                cwd=root,
                env=_environment(root, {}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        if done.returncode:
            raise InfrastructureError(printable(last_line(done.stderr, f"exit code {done.returncode}")))
        return done.stdout

    def _make_tree(self, root: Path) -> Path:
        """A tree with this checkout's code; returns its notebook of the GPU key. A container sees no link out of it."""
        tuning = root / "tuning" / self.gpu
        tuning.mkdir(parents=True)
        take_over(self._repository, root, link if self.image is None else copy)
        return tuning

    def start(self, assignment: Assignment, after: str | None = None) -> None:
        """Begin a ladder, which waits with its device for the end of the one of the key ``after``.

        Raises OSError where the host has no room.
        """
        root = self._place / assignment.key
        try:
            process = self._begin(root, assignment, self._present(after))
        except OSError:
            files.remove(root)
            raise
        self._running[assignment.key] = process
        have = {name: len(content) for name, content in assignment.files.items()}
        files.put(root / START, msgspec.json.encode(Start(assignment.gpu, living(process.pid) or "", have)))

    def _present(self, key: str | None) -> str | None:
        """The process of a ladder, if it still runs."""
        process = self._running[key] if key is not None else None
        return living(process.pid) if process is not None and process.poll() is None else None

    def _begin(self, root: Path, assignment: Assignment, ahead: str | None) -> subprocess.Popen[bytes]:
        tuning = self._make_tree(root)
        for name, content in assignment.files.items():
            (tuning / name).parent.mkdir(parents=True, exist_ok=True)
            (tuning / name).write_bytes(content)
        with (tuning / SAID).open("wb") as said:
            return subprocess.Popen(
                self._command(*assignment.words),
                cwd=root,
                env=_environment(root, {**assignment.environment, AFTER: ahead}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def _command(self, *words: str) -> list[str]:
        """Python with these arguments, on this seat's cores; it ends with this process."""
        cpus = ",".join(map(str, slice_of(self.lane, self.lanes)))
        if self.image is not None:
            needs_gpu = self.uses_device and not gpus.find(self.gpu).is_cpu
            words = ("-m", "harness.extras.fleet.inside", self.image, str(int(needs_gpu)), *words)
        return [sys.executable, "-IS", BEGIN, str(os.getpid()), cpus, *words]

    def news(self, key: str, have: dict[str, int], seconds: float = 0.0) -> News:
        """What the ladder's files gained beyond the sizes that the driver has, once it ended or so long has passed."""
        with suppress(subprocess.TimeoutExpired):
            self._running[key].wait(seconds)
        code = self._running[key].poll()  # before its files are read: what they hold then is all
        root = self._place / key
        loose = {} if code is None else _loose(root, self.gpu)
        return News(key, _grown(root / "tuning" / self.gpu, have) | loose, code)

    def stop(self, key: str) -> None:
        """Ask the ladder's command line to stop, as Ctrl-C does."""
        with suppress(ProcessLookupError):
            self._running[key].send_signal(signal.SIGINT)

    def end(self, key: str) -> None:
        """End it at once; its children end with it."""
        self._running[key].kill()
        self._running[key].wait()

    def clear(self, key: str) -> None:
        """Remove a tree: the driver has all of it."""
        self._running.pop(key, None)
        files.remove(self._place / key)
        with suppress(OSError):
            self._place.rmdir()

    def left(self, active: frozenset[str]) -> list[News]:
        """What earlier runs and lost seats left on this host; ``active`` trees are in use."""
        found = []
        for path in sorted(self._place.glob(f"*/{START}")):
            key = path.parent.name
            if key in active or key in self._running:
                continue
            began = msgspec.json.decode(path.read_bytes(), type=Start)
            _await_end(began.process)
            if began.gpu == self.gpu:
                grown = _grown(path.parent / "tuning" / began.gpu, began.have)
                found.append(News(key, grown | _loose(path.parent, began.gpu), 0))
        return found

    @property
    def _place(self) -> Path:
        return Path(tempfile.gettempdir()) / f"tilebench-fleet-{self.notebook}"

    @property
    def _repository(self) -> Path:
        return Path(self.root) if (Path(self.root) / "tuning").is_dir() else Tree.here().root


def _grown(tuning: Path, have: dict[str, int]) -> dict[str, bytes]:
    names = {str(path.relative_to(tuning)) for form in (RECORDS, SOURCES) for path in tuning.glob(form)} | {SAID}
    found = {}
    for name in sorted(names):
        with suppress(FileNotFoundError), (tuning / name).open("rb") as file:
            file.seek(have.get(name, 0))
            content = file.read()
            if whole := content[: content.rfind(b"\n") + 1]:
                found[name] = whole
    return found


def _loose(root: Path, gpu: str) -> dict[str, bytes]:
    """The files of an ended tree that no record makes again, whole, if it wrote them."""
    tuning, began_ns = root / "tuning" / gpu, (root / START).stat().st_mtime_ns
    found = (path for form in LOOSE for path in tuning.glob(form) if path.stat().st_mtime_ns > began_ns)
    return {str(path.relative_to(tuning)): path.read_bytes() for path in found}


def _environment(root: Path, changes: dict[str, str | None]) -> dict[str, str]:
    """This process's, without Ray's: a ladder may learn nothing of the cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own = {"TILEBENCH_ROOT": str(root), "PYTHONPATH": Tree(root).python_path}
    return {name: value for name, value in {**kept, **changes, **own}.items() if value is not None}


def _await_end(name: str) -> None:
    """Wait for a process that lost its seat, which stops by itself; end it where it does not."""
    with suppress(psutil.NoSuchProcess):
        if not lives(name):
            return
        process = psutil.Process(int(name.partition(" ")[0]))
        with suppress(psutil.TimeoutExpired):
            process.wait(END_S)
            return
        process.kill()
        process.wait(END_S)
