"""With ``TILEBENCH_TUNE=1`` the first call of a problem races the kernels that may compute it, for a bounded time.

The winner is kept on the disk, for this device and these versions. Where none is surely faster, the library is.
"""

import hashlib
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from harness.catalog import gpus
from harness.errors import InfrastructureError, UsageError
from harness.judge.facts.gpu import CPU
from harness.judge.facts.problem import Problem
from harness.machine import cores
from harness.records.store import append, read
from kernels.front.arguments import CAUSAL
from kernels.front.candidates import ATTENTION, CANDIDATES, choice_of
from kernels.front.choice import Choice, library
from kernels.front.defaults import ONLY_TILES, refused
from kernels.front.model import fill
from kernels.front.pinned import tupled
from kernels.front.places import Place
from kernels.front.timing import SET_BYTES, Launch, race_on_cpu, start

TUNE: Final = "TILEBENCH_TUNE"
SECONDS: Final = "TILEBENCH_TUNE_SECONDS"  # for the compilations, which take most of the time
SECONDS_USUAL: Final = 60.0
KERNELS: Final = Path(__file__).parent.parent

_HOLDS: Final = ("problem", "device", "torch", "tilelang", "code_sha256")
_racing = threading.Lock()  # a race beside another would time both

Compile = Callable[[Problem, Choice, Place], Launch]


class RacedWinner(msgspec.Struct, frozen=True):
    """What a race found, and for what it holds; ``family`` is None where the library is best.

    ``ratio`` is to the library, and ``half`` of its 95% interval. ``code_sha256`` is of all families.
    """

    problem: str
    device: str
    torch: str
    tilelang: str
    code_sha256: str
    raced: int
    ratio: float = 1.0
    half: float = 0.0
    family: str | None = None
    levers: Mapping[str, Any] = {}

    def choice(self) -> Choice:
        if self.family is None:
            return library(f"none of {self.raced} kernels raced here was surely faster")
        levers = {name: tupled(value) for name, value in self.levers.items()}
        why = f"first of {self.raced} kernels raced here, {self.ratio:.4f} ± {self.half:.4f} of the library's speed"
        return Choice(why, self.family, levers)

    def holds_as(self, other: "RacedWinner") -> bool:
        """Whether both are of one problem, device and code."""
        return all(getattr(self, name) == getattr(other, name) for name in _HOLDS)


def raced(problem: Problem, where: Place, compiled: Compile) -> Choice | None:
    """The winner of an earlier race, or of one that is held now; None where races are off, or none can be held.

    ``compiled`` makes a launch of a choice. Raises UsageError for a wrong setting.
    """
    if not _wanted() or (where.device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        return None
    blank = RacedWinner(problem.shape_key, _device(where), str(torch.__version__), version("tilelang"), _code(), 0)
    with _racing:
        kept = (each for each in reversed(read(path(), RacedWinner)[0]) if each.holds_as(blank))
        if (found := next(kept, None)) is not None:
            return found.choice()
        held = _race(problem, where, compiled, blank)
        if held is None:
            return None
        found, launch = held
        choice = replace(found.choice(), launch=launch)
        try:
            append(path(), found)
            where_kept = f"kept in {path()}"
        except InfrastructureError as error:
            where_kept = f"not kept: {error}"
        print(f"tilebench: {problem}: {choice}; {where_kept}", file=sys.stderr)
        return choice


def path() -> Path:
    """Where winners are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilebench" / "raced.jsonl"


def contenders(problem: Problem, where: Place) -> list[Choice]:
    """What may compute a problem on this device, the likeliest first."""
    if 0 in problem.dims or where.arch is None or problem.output != problem.input:
        return []
    if where.arch == "c":
        return _of_cpu(problem)
    if problem.operator in CAUSAL:
        names = [each for each in ATTENTION if _suits(each, problem)] if where.arch == "sm_90a" else []
    elif refused(problem) is not None:
        return []
    elif where.arch == "sm_90a":
        names = [name for name, tile in CANDIDATES.items() if tile.takes(problem)]
        names.sort(key=lambda name: -fill(CANDIDATES[name], problem, where.sms))
    else:
        tile = ONLY_TILES[where.arch]
        return [Choice("raced", tile.family, tile.levers)]
    return [choice_of(name, problem, where.sms) for name in names]


def _suits(name: str, problem: Problem) -> bool:
    """Kept maxima are for the width in their name; without a mask a heavy weight must be exact, as the library's is."""
    kind = next(each for each in ("kept", "exact", "ahead", "late") if name.startswith(each))
    if kind in ("ahead", "late"):
        return True
    own = str(problem.dims[4]) == name.removeprefix(kind).removesuffix("wide")
    return own and (kind == "kept") == CAUSAL[problem.operator]


def _of_cpu(problem: Problem) -> list[Choice]:
    from kernels.cpu.register_blocked.family import FAMILY, space  # a description, which no kernel needs

    if problem.operator not in FAMILY.operators or problem.input != "float32":
        return []
    return [Choice("raced", FAMILY.name, levers) for levers in space(problem, gpus.find(CPU))]


def _race(
    problem: Problem, where: Place, compiled: Compile, blank: RacedWinner
) -> tuple[RacedWinner, Launch | None] | None:
    """The winner, and its launch unless it is the library; None where nothing compiled in time, or memory is short."""
    choices = {str(number): each for number, each in enumerate(contenders(problem, where))}
    launches = dict(_built(problem, where, choices, compiled))
    if not launches:
        return None
    try:
        with torch.no_grad():
            record = race_on_cpu(problem, launches) if where.arch == "c" else _on_gpu(problem, where, launches)
    except torch.OutOfMemoryError:
        return None
    held = msgspec.structs.replace(blank, raced=len(launches))
    ratios = {name: (each, half) for name, (each, half) in record["ratios"].items() if each - half > 1}
    if not ratios:
        return held, None
    first = max(ratios, key=lambda name: ratios[name])
    ratio, half = ratios[first]
    taken = {"family": choices[first].family, "levers": choices[first].levers}
    return msgspec.structs.replace(held, ratio=ratio, half=half, **taken), launches[first]


def _on_gpu(problem: Problem, where: Place, launches: Mapping[str, Launch]) -> dict[str, Any]:
    """Race on a GPU, beside what else its streams do."""
    dtype = getattr(torch, problem.input)
    needed = max(SET_BYTES // 2, 2 * sum(math.prod(shape) for shape in problem.inputs))
    with torch.cuda.device(where.device):
        pool = torch.empty(needed, dtype=dtype, device=where.device)
        pool.normal_(generator=torch.Generator(where.device).manual_seed(0))
        return start(problem, launches, pool, torch.cuda.graph_pool_handle(), random.Random(0)).finish()


def _built(
    problem: Problem, where: Place, choices: Mapping[str, Choice], compiled: Compile
) -> Iterator[tuple[str, Launch]]:
    """What compiles in time; what its family refuses, or does not compile, is left out."""
    until = time.monotonic() + _seconds()
    pool = ThreadPoolExecutor(cores.jobs())
    futures = {name: pool.submit(compiled, problem, choice, where) for name, choice in choices.items()}
    for name, future in futures.items():
        with suppress(Exception):
            yield name, future.result(timeout=max(0.0, until - time.monotonic()))
    pool.shutdown(wait=False, cancel_futures=True)


def _wanted() -> bool:
    setting = os.environ.get(TUNE) or "0"
    if setting not in ("0", "1"):
        raise UsageError(f"{TUNE} is '{setting}'; set it to 1 to race kernels at first calls, or unset it")
    return setting == "1"


def _seconds() -> float:
    given = os.environ.get(SECONDS)
    try:
        seconds = SECONDS_USUAL if not given else float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{SECONDS} is '{given}'; set it to how long a race may compile, such as 60")
    return seconds


def _device(where: Place) -> str:
    """A GPU by its name and SMs; a CPU by its vector instructions, and by torch's threads, with which it races."""
    if where.device.type == "cuda":
        return f"{torch.cuda.get_device_name(where.device)}, {where.sms} SMs"
    return f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


@cache
def _code() -> str:
    found = hashlib.sha256()
    for file in sorted(KERNELS.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()
