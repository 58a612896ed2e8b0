"""The contestant: the process that loads one iteration, builds its kernel, and launches it on order."""

import importlib.util
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter  # bound before the iteration can patch it
from types import ModuleType

import torch

from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.failure import failed
from harness.judge.child.kernel import Kernel, build_kernel
from harness.judge.child.serve import serve
from harness.judge.child.setup import set_up_contestant
from harness.judge.messages import Built, send
from harness.records.base import Cause


def contestant(brief: Brief, parent: Connection, referee: Connection) -> None:
    """Body of the process, until the referee hangs up."""
    with child_body(brief, parent, set_up=set_up_contestant):
        kernel = _build(brief, parent)
        if kernel is not None:
            serve(brief, kernel, referee)


def _build(brief: Brief, parent: Connection) -> Kernel | None:
    started = perf_counter()
    cause = Cause.LOAD
    try:
        module = load(brief.path)
        cause = Cause.COMPILE
        device = torch.device("cpu" if brief.gpu.is_cpu else "cuda")
        kernel = build_kernel(module.build, brief.problem, brief.gpu, device)
    except MemoryError as error:
        send(parent, failed(error, Cause.OUT_OF_MEMORY, brief, "out of host memory while building"))
        return None
    except BaseException as error:
        send(parent, failed(error, cause, brief))
        return None
    send(parent, Built(perf_counter() - started, kernel.signature, kernel.compilation))
    return kernel


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
