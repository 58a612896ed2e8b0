"""The set-up of a child process: its group, core and limits, and its end with the parent."""

import ctypes
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Final

import tilelang
import torch

from harness.judge.child import namespaces
from harness.judge.child.brief import OUTPUT_FILE, STACK_FILE, STACK_SIGNAL, Brief
from harness.judge.child.confinement import confine, level, no_locks
from harness.judge.messages import VERSION, Confined
from harness.operators import adopt

MAX_FILE_BYTES: Final = 1 << 30
_PR_SET_PDEATHSIG: Final = 1


def set_up_child(brief: Brief) -> None:
    """The set-up of every child."""
    os.setsid()
    # A child inherits the end of a pipe that keeps the forkserver alive. A child that hangs must not.
    os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
    # And one to the resource tracker, which removes shared memory of any name that it is told.
    tracker = resource_tracker._resource_tracker
    os.close(tracker._fd)  # type: ignore[attr-defined]
    tracker._fd = None  # type: ignore[attr-defined]
    # The parent here is the forkserver or the keeper of the namespaces; it ends with the run in every case.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.path.insert(0, str(brief.root))
    adopt(brief.root)
    if brief.gpu.is_cpu:
        torch.set_num_threads(1)
    if brief.core is not None:
        os.sched_setaffinity(0, {brief.core})


def set_up_side(brief: Brief) -> Confined:
    """The set-up of both sides: what confinement costs one, it costs the other."""
    writable = (brief.scratch,) if brief.scratch != Path() else ()
    outer = namespaces.enter(writable) if namespaces.offered() else None
    set_up_child(brief)
    confine(writable)
    return Confined(outer or os.getpid(), level(namespaces=outer is not None), VERSION)


def set_up_contestant(brief: Brief) -> Confined:
    """The set-up for untrusted code: its own folder, its output in a file, no cache that another wrote."""
    confined = set_up_side(brief)
    if not brief.opponent:  # the compilers of some opponents lock their caches
        no_locks()
    work_in(brief.scratch)
    _tell_stack(brief.scratch / STACK_FILE)
    for variable in ("CUDA_CACHE_PATH", "TILELANG_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[variable] = str(brief.scratch)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.dont_write_bytecode = True
    random.seed()
    torch.seed()
    tilelang.disable_cache()
    return confined


def _tell_stack(file: Path) -> None:
    """Write the Python stack to a file when the process crashes, and when its parent asks."""
    written = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)  # open until the process ends
    faulthandler.enable(written, all_threads=False)
    faulthandler.register(STACK_SIGNAL, written, all_threads=False)


def work_in(folder: Path) -> Path:
    """Work in a folder that takes temporary files and all output; returns the file with the output."""
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # the forkserver has cached its own
    output = folder / OUTPUT_FILE
    taken = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, taken), (2, taken)):
        os.dup2(source, target)
    return output
