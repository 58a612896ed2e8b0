"""Other interpreters: forkservers with another TileLang, torch or Python, beside the parent's own.

Python's multiprocessing knows one forkserver, of the parent's interpreter and with the parent's path. While ``using``
lasts it knows another one. All of them run this harness, and speak its messages.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from multiprocessing import forkserver, spawn
from pathlib import Path
from typing import Any, Final

from harness.judge.child.preloading import REASON_IN, Preloading

IMPORTS: Final = "harness.judge.child.preloaded"
PRELOAD: Final = ["harness.judge.child.parent_death_signal", IMPORTS]
CACHES: Final = ("TILELANG_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
IMPORT_DEADLINE_S: Final = 120.0
CODE: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Interpreter:
    """A Python with packages of its own. ``name`` is for people; its compilers keep their caches in ``caches``.

    ``support`` is a folder with what this harness imports and the Python lacks.
    """

    name: str
    python: Path
    caches: Path
    support: Path | None = None
    imports: Preloading = field(default_factory=Preloading, compare=False, repr=False)


own_imports: Final = Preloading()
_servers: Final[dict[Interpreter | None, Any]] = {None: vars(forkserver)["_forkserver"]}
_numbers: Final = count()  # of the files in which imports tell their reasons
_preparation: Final = spawn.get_preparation_data


def server_pids() -> list[int]:
    """The processes of all forkservers that were started."""
    pids = (server._forkserver_pid for server in _servers.values())
    return [pid for pid in pids if pid is not None]


@cache
def write_bytecode(*interpreters: Interpreter) -> None:
    """Import once what their forkservers will import, which then find bytecode.

    Without bytecode an import takes other memory, and TileLang's code depends on addresses: a new environment would
    compile other kernels than an old one. An import that fails or hangs shows in the forkserver.
    """
    begun = [subprocess.Popen([each.python, "-c", f"import {IMPORTS}"], **_unheard(each)) for each in interpreters]
    until = time.monotonic() + IMPORT_DEADLINE_S
    for process in begun:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _unheard(interpreter: Interpreter) -> dict[str, Any]:
    """Arguments of a process that may write bytecode, prints nowhere, and gives no reason to the parent."""
    dropped = {"PYTHONDONTWRITEBYTECODE", REASON_IN}
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return {"env": variables | _places(interpreter), **streams}


def retire(interpreter: Interpreter) -> None:
    """End an interpreter's forkserver, which holds hundreds of MB; another process of it starts a new one."""
    server = _servers.pop(interpreter, None)
    if server is not None and server._forkserver_pid is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
        os.waitpid(server._forkserver_pid, 0)
        os.close(server._forkserver_alive_fd)
        if (descriptor := Path(server._forkserver_address).name).isdigit():  # the way to its socket
            os.close(int(descriptor))


@contextlib.contextmanager
def using(interpreter: Interpreter | None, sockets: Path) -> Iterator[None]:
    """Start processes from an interpreter's forkserver; None is the parent's own. One thread at a time may be here."""
    if interpreter is None:
        yield
        return
    if interpreter not in _servers:
        _servers[interpreter] = forkserver.ForkServer()
        _servers[interpreter].set_forkserver_preload(PRELOAD)
    server = _servers[interpreter]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(interpreter))
        if server._forkserver_pid is None:
            interpreter.imports.expect(sockets / f"preloading-{next(_numbers)}.txt")
        for name in ("ensure_running", "connect_to_new_process"):
            _put(stack, forkserver, name, getattr(server, name))
        _put(stack, forkserver, "_forkserver", server)
        _put(stack, spawn, "_python_exe", os.fsencode(interpreter.python))
        _put(stack, spawn, "get_preparation_data", _without_path)
        yield


@contextlib.contextmanager
def _environment(interpreter: Interpreter) -> Iterator[None]:
    """The variables of a forkserver that starts now: this harness, no other path, and caches apart."""
    kept = {name: os.environ.get(name) for name in (*_places(interpreter), REASON_IN)}
    os.environ.update(_places(interpreter))
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _places(interpreter: Interpreter) -> dict[str, str]:
    """Variables: where its compilers keep what they make, and where this harness is with what it imports."""
    path = os.pathsep.join(str(each) for each in (CODE, interpreter.support) if each is not None)
    return {**dict.fromkeys(CACHES, str(interpreter.caches)), "PYTHONPATH": path}


def _put(stack: contextlib.ExitStack, place: Any, name: str, value: object) -> None:
    stack.callback(setattr, place, name, getattr(place, name))
    setattr(place, name, value)


def _without_path(name: str) -> dict[str, Any]:
    """multiprocessing gives a child its parent's path, and with it the parent's packages."""
    return {key: value for key, value in _preparation(name).items() if key != "sys_path"}
