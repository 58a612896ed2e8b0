"""Builds of iterations in environments, kept on the disk until a source, the compilers or the environment changes.

A child in each environment builds one iteration after another (``worker``); as many work at once as there are cores.
"""

import hashlib
import math
import struct
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.catalog.tree import Iteration, Tree
from harness.errors import UsageError
from harness.evidence import sass, toolchain
from harness.extras import forked
from harness.extras.foreign.scripts import sources_sha256
from harness.extras.forked import ForkingChild
from harness.extras.versus import opcodes, worker
from harness.extras.versus.cases import BenchmarkCase
from harness.extras.versus.environment import FOLDER, PythonEnvironment
from harness.judge import contract
from harness.judge.facts import ptxas
from harness.judge.facts.gpu import Gpu
from harness.machine import cores, repository
from harness.machine.files import put
from harness.machine.progress import Reporter
from harness.runs.run_ahead import run_ahead

BUILDS: Final = FOLDER / "builds"
CODES: Final = FOLDER / "codes"
_SECTIONS: Final = (".text.", ".nv.constant", ".nv.info", ".nv.shared")
_NO_BITS: Final = 8  # the type of a section that has a size and no content


class KernelCode(msgspec.Struct, frozen=True):
    """One kernel of a build: registers and spills of a thread, shared memory of a block, instructions by class."""

    name: str
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None
    instructions: int | None
    classes: dict[str, int]


class DeviceModule(msgspec.Struct, frozen=True):
    """What one call of nvcc made: the cubin in hexadecimal, ptxas's words, and dynamic shared memory in bytes.

    ``launch`` says the grid, the block and the parameters in TileLang's words, and ``extents`` their numbers.
    """

    source: str
    cubin: str
    log: str
    shared: dict[str, int]
    launch: str
    extents: dict[str, int]


class VersusBuild(msgspec.Struct, frozen=True):
    """What an environment made of an iteration; ``error`` is the first line of why it made nothing.

    ``code_sha256`` is of the machine code with its constants, without names of files and lines. The kernel with the
    most instructions is first. ``launch`` says grids, blocks and parameters; ``extents`` has the numbers by kernel and
    axis. An error is ``transient`` where another time there may be none.
    """

    seconds: float = 0.0
    error: str | None = None
    source: str = ""
    code_sha256: str | None = None
    kernels: tuple[KernelCode, ...] = ()
    launch: str = ""
    extents: dict[str, int] = {}
    transient: bool = False


@dataclass(frozen=True)
class BuildOrder:
    """One iteration, or a case of another tree, in one environment. A later ``sample`` has other addresses."""

    iteration: Iteration | BenchmarkCase
    environment: PythonEnvironment
    sample: int = 1


@dataclass
class BuildCompiler:
    """Builds for one architecture; ``again`` repeats what is kept. ``made`` has every build by its order.

    ``fresh`` of the ``wanted`` builds that no file had are made so far.
    """

    tree: Tree
    gpu: Gpu
    deadline_s: float
    reporter: Reporter
    again: bool = False
    made: dict[BuildOrder, VersusBuild] = field(default_factory=dict)
    fresh: int = 0
    wanted: int = 0

    def build(self, orders: Iterable[BuildOrder]) -> None:
        """Build the orders, from the disk where it can; a second sample after the first."""
        waiting: dict[PythonEnvironment, deque[BuildOrder]] = {}
        for order in orders:
            known = self._known(order)
            if known is None:
                waiting.setdefault(order.environment, deque()).append(order)
            else:
                self.made[order] = known
        if not waiting:
            return
        self.wanted += sum(map(len, waiting.values()))
        at_once, jobs = threading.Semaphore(cores.jobs()), range(cores.jobs())
        # The second environment begins at the other end, and finds compiled there what its headers and sources share.
        for queue in [*waiting.values()][1::2]:
            queue.reverse()
        lanes = [BuildLane(self, *each, at_once) for job in jobs for each in waiting.items() if job < len(each[1])]
        toolchain.find().require(cpu=False)
        with run_ahead(BuildLane.run, lanes, len(lanes), window=len(lanes), abort=lambda: _end(lanes)) as ended:
            for _ in ended:
                pass

    def keep(self, order: BuildOrder, build: VersusBuild) -> None:
        self.made[order] = build
        self.fresh += 1
        if not build.transient:
            put(self._path(order), msgspec.json.encode(build))

    def kept_codes(self, where: PythonEnvironment) -> list[str]:
        """The folder in which workers share machine code; none in a container, or where all is to be made again."""
        folder = (self.tree.root / CODES).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return [] if self.again or where.image else [str(folder)]

    def _known(self, order: BuildOrder) -> VersusBuild | None:
        try:
            if isinstance(order.iteration, Iteration):
                contract.check(order.iteration)
        except contract.Breach as breach:
            return VersusBuild(error=f"contract: {breach.reason}")
        try:
            return None if self.again else msgspec.json.decode(self._path(order).read_bytes(), type=VersusBuild)
        except (OSError, msgspec.MsgspecError):
            return None

    def _path(self, order: BuildOrder) -> Path:
        each, nvcc = order.iteration, toolchain.find().nvcc
        if isinstance(each, BenchmarkCase):
            sources = each.name, sources_sha256(each.path, each.root)
        else:
            sources = self.tree.hashes(each)
        key = (
            *(*sources, each.shape_key, self.gpu.arch),
            *(order.environment.sha256, nvcc.version if nvcc else "", _own_sha256(), order.sample),
        )
        return self.tree.root / BUILDS / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.json"


@dataclass
class BuildLane:
    """A child that builds the orders of one environment, which lanes of the same environment share."""

    compiler: BuildCompiler
    environment: PythonEnvironment
    queue: deque[BuildOrder]
    at_once: threading.Semaphore
    child: ForkingChild | None = None
    ended: bool = False

    def run(self) -> None:
        try:
            while not self.ended and self.queue:
                with self.at_once:
                    try:
                        order = self.queue.popleft()
                    except IndexError:  # another lane has taken the last
                        return
                    self._one(order)
        finally:
            _end([self])

    def _one(self, order: BuildOrder) -> None:
        answer = self._asked(order)
        if self.ended:
            return
        build = _read(answer)
        self.compiler.keep(order, build)
        said = build.error or f"built in {build.seconds:.1f} s"
        done = f"{self.compiler.fresh}/{self.compiler.wanted}"
        self.compiler.reporter.finished(f"{done} {order.iteration} by {order.environment.tilelang}: {said}")

    def _asked(self, order: BuildOrder) -> dict[str, Any]:
        """The child's answer. Raises UsageError where TileLang does not import in the environment."""
        words: dict[str, Any] = {
            "sample": order.sample,
            "path": str(order.iteration.path),
            "shape_key": order.iteration.shape_key,
            "arch": self.compiler.gpu.arch,
            "deadline_s": math.ceil(self.compiler.deadline_s),
        }
        if isinstance(order.iteration, BenchmarkCase):
            words |= {"function": order.iteration.name, "root": str(order.iteration.root), "sms": self.compiler.gpu.sms}
        if self.child is None:
            tree = self.compiler.tree
            command = [*self.environment.command, "-m", worker.__name__, str(tree.root)]
            command += self.compiler.kept_codes(self.environment)
            variables = {**self.environment.variables(tree), "TILELANG_PRINT_ON_COMPILATION": "0"}
            self.child = ForkingChild(command, repository.code(tree.root), variables)
        answer = self.child.ask(words)
        if answer is None and not self.ended:
            raise UsageError(f"{self.environment.name} cannot build: {self.child.last_words()}")
        return answer or {}


def _read(answer: dict[str, Any]) -> VersusBuild:
    """The build in an answer."""
    if error := answer.get("reason"):
        seconds, transient = float(str(answer.get("seconds", 0))), bool(answer.get("transient"))
        return VersusBuild(seconds, error=str(error), transient=transient)
    made = msgspec.convert(answer["modules"], list[DeviceModule])
    codes = [code_sha256(bytes.fromhex(each.cubin)) for each in made]
    kernels = [kernel for each in made for kernel in _kernels(bytes.fromhex(each.cubin), each.log, each.shared)]
    return VersusBuild(
        seconds=float(str(answer["seconds"])),
        source="\n".join(each.source for each in made),
        code_sha256=codes[0] if len(codes) == 1 else hashlib.sha256(repr(codes).encode()).hexdigest(),
        kernels=tuple(sorted(kernels, key=lambda each: -(each.instructions or 0))),
        launch="\n".join(each.launch for each in made),
        extents={name: extent for each in made for name, extent in each.extents.items()},
    )


def _end(lanes: Iterable[BuildLane]) -> None:
    for lane in lanes:
        lane.ended = True
        if lane.child is not None:
            lane.child.close()


def code_sha256(cubin: bytes) -> str:
    """Hash of the code, constants and resources in a cubin, without the lines and files that -lineinfo adds.

    Raises ValueError for what is no ELF file of 64 bits.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, strings = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + number * size) for number in range(count)]
    names = headers[strings][4]
    held = []
    for name, kind, _, _, offset, length in headers:
        title = cubin[names + name : cubin.index(b"\0", names + name)].decode()
        if title.startswith(_SECTIONS):
            held.append((title, length, b"" if kind == _NO_BITS else cubin[offset : offset + length]))
    return hashlib.sha256(repr(sorted(held)).encode()).hexdigest()


def _kernels(cubin: bytes, log: str, shared: Mapping[str, int]) -> Iterator[KernelCode]:
    codes = _disassembled(cubin)
    for name, used in ptxas.usage(log).items():
        code = codes.get(name)
        yield KernelCode(
            name=name,
            registers=used.registers,
            spill_bytes=used.spill_store_bytes + used.spill_load_bytes,
            shared_bytes=used.static_shared_bytes + shared[name] if name in shared else None,
            instructions=code.instructions if code else None,
            classes=opcodes.classes(code.opcodes) if code else {},
        )


@lru_cache(128)  # another environment often has the same
def _disassembled(cubin: bytes) -> dict[str, sass.Code]:
    cuobjdump = toolchain.find().cuobjdump
    text = sass.disassemble(cuobjdump.path, cubin) if cuobjdump is not None and cubin else None
    return sass.read(text or "")


@cache
def _own_sha256() -> str:
    """Hash of the code that makes a build: a kept one of other code is not taken."""
    beside = Path(forked.__file__)
    readers = (opcodes.__file__, sass.__file__, ptxas.__file__, worker.__file__)
    files = (Path(__file__), *map(Path, readers), beside, beside.with_name("stand_in.py"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
