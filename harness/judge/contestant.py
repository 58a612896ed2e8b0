"""The contestant: the process that runs one iteration's code, builds its kernel, and launches it when told."""

import importlib.util
import os
import random
import resource
import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

import tilelang
import torch

from harness.judge.arena import receive_arena
from harness.judge.clock import CLOCKS, Clock
from harness.judge.entry import Brief
from harness.judge.kernel import Kernel, compile_kernel
from harness.judge.messages import Broken, Built, Message, Prepare, Ran, Ready, Run, receive, send
from harness.records import Cause

MAX_FILE_BYTES: Final = 1 << 30
MAX_CORE_BYTES: Final = 0


def contestant(brief: Brief, parent: Connection, referee: Connection) -> NoReturn:
    """Body of the process. It ends by ``os._exit``: TVM can crash at interpreter exit."""
    try:
        _settle(brief)
        kernel = _build(brief, parent)
        if kernel is not None:
            _serve(brief, kernel, referee)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the other side is gone, and with it the reason to be here
    finally:
        os._exit(0)


def explain(error: BaseException) -> str:
    """The part of an exception that a person needs, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    worst = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
    return f"{type(error).__name__}: {worst}"[:400]


def _settle(brief: Brief) -> None:
    """A process group and a scratch folder of its own; its output goes to a file there."""
    os.setsid()
    os.chdir(brief.scratch)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    os.environ["TMPDIR"] = str(brief.scratch)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (MAX_CORE_BYTES, MAX_CORE_BYTES))
    sys.path.insert(0, str(brief.root))
    sys.dont_write_bytecode = True
    random.seed()
    torch.seed()
    if brief.gpu.is_cpu:
        torch.set_num_threads(1)
    if brief.core is not None:
        os.sched_setaffinity(0, {brief.core})
    tilelang.disable_cache()  # another iteration's process could have written there


def _build(brief: Brief, parent: Connection) -> Kernel | None:
    started = time.perf_counter()
    cause = Cause.LOAD
    try:
        module = _load(brief.path)
        cause = Cause.COMPILE
        kernel = compile_kernel(
            module.build(brief.problem), brief.gpu, torch.device("cpu" if brief.gpu.is_cpu else "cuda")
        )
    except MemoryError:
        send(parent, Broken(Cause.OUT_OF_MEMORY, "out of host memory while building"))
        return None
    except BaseException as error:
        send(parent, Broken(cause, explain(error)))
        return None
    send(
        parent,
        Built(
            seconds=time.perf_counter() - started,
            generated_sha256=kernel.source_sha256,
            generated_bytes=len(kernel.source or ""),
            tensors=kernel.signature,
        ),
    )
    return kernel


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _serve(brief: Brief, kernel: Kernel, referee: Connection) -> None:
    """Answer the referee until it hangs up."""
    arena = receive_arena(referee, cpu=brief.gpu.is_cpu)
    clock: Clock | None = None
    while True:
        order = receive(referee, Prepare | Run)
        answer: Message
        try:
            if isinstance(order, Prepare):
                clock = None  # a graph holds on to memory until it is gone
                calls = [partial(kernel.launch, *tensors) for tensors in arena.sets(brief.problem, order.sets)]
                clock = CLOCKS[order.timer](calls[0], calls[1:])
                answer = Ready()
            else:
                assert clock is not None, "Run before Prepare"
                answer = Ran(*clock.run())
        except (MemoryError, torch.OutOfMemoryError) as error:
            answer = Broken(Cause.OUT_OF_MEMORY, explain(error))
        except BaseException as error:
            answer = Broken(Cause.RUNTIME, explain(error))
        send(referee, answer)
        if isinstance(answer, Broken):
            return
