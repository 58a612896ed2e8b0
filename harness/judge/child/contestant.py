"""The contestant: the process that loads one iteration or opponent, builds its kernel, and launches it on order."""

import os
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter  # bound before the iteration can patch it
from types import ModuleType
from typing import Any

import torch

from harness.catalog.opponents import Opponent, described_in
from harness.judge.child.body import child_body
from harness.judge.child.brief import STACK_SIGNAL, Brief
from harness.judge.child.failure import failed
from harness.judge.child.inputs import tensors
from harness.judge.child.kernel import Kernel, build_kernel
from harness.judge.child.levers import Levers, plain
from harness.judge.child.preparation import Preparation
from harness.judge.child.serve import serve
from harness.judge.child.setup import set_up_contestant
from harness.judge.facts.problem import Problem
from harness.judge.messages import Built, send
from harness.judge.steady_addresses import in_memory_of_its_own
from harness.records.base import Cause


def contestant(brief: Brief, parent: Connection, referee: Connection) -> None:
    """Body of the process, until the referee hangs up."""
    with child_body(brief, parent, set_up=set_up_contestant):
        if brief.opponent:  # its tuner may need the main thread, which alone can handle signals
            kernel = _build(brief, parent)
        else:
            kernel = in_memory_of_its_own(lambda: _build(brief, parent), {STACK_SIGNAL})
        if kernel is not None:
            serve(brief, kernel, referee)


def _build(brief: Brief, parent: Connection) -> Kernel | None:
    started = perf_counter()
    cause = Cause.LOAD
    try:
        levers = Levers(brief.path)
        entered: Any = _opponent(brief) if brief.opponent else load(brief.path)
        cause = Cause.COMPILE
        device = torch.device("cpu" if brief.gpu.is_cpu else "cuda")

        def noted(problem: Problem) -> object:
            built = plain(entered.build(problem))
            levers.note_result(built)
            return built

        kernel = replace(build_kernel(noted, brief.problem, brief.gpu, device), unpinned=levers.complaint)
        if brief.opponent:
            kernel = replace(kernel, prepare=entered.prepare)
            _rehearse(kernel, brief.problem, device)
        else:
            levers.note_config(entered)
        seconds = perf_counter() - started
        if brief.launches:
            kernel.link()
    except MemoryError as error:
        send(parent, failed(error, Cause.OUT_OF_MEMORY, brief, "out of host memory while building"))
        return None
    except BaseException as error:
        send(parent, failed(error, cause, brief))
        return None
    said = levers.complaint(), kernel.dynamic, kernel.traced_sha256
    send(parent, Built(seconds, kernel.signature, kernel.compilation, *said))
    return kernel


def _opponent(brief: Brief) -> Opponent:
    """The opponent as its file describes it; its package may keep caches in the home folder.

    Triton and torch have noted the folder of the forkserver's user already, so each is told by its own variable.
    """
    for variable in ("HOME", "TRITON_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[variable] = str(brief.scratch)
    return next(each for each in described_in(brief.path) if each.name == brief.opponent)


def _rehearse(kernel: Kernel, problem: Problem, device: torch.device) -> None:
    """Launch once on tensors like the referee's: some opponents compile and tune at their first call."""
    kernel.launch(*Preparation(kernel.prepare, [tensors(problem, device)], len(problem.inputs)).sets[0])
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def load(path: Path) -> ModuleType:
    """Run the file's text, and no bytecode that lies beside it."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return module
