"""Measure candidates beside the library on this GPU, for the front's model to be fitted to.

    python -m kernels.front.measure JOBS RECORDS [SECONDS [BUILDS]]
    python -m kernels.front.measure --build JOBS BUILDS SECONDS
    python -m kernels.front.measure --tiles RECORDS

JOBS has a JSON object a line: ``key`` is a shape key, ``candidates`` a list of names, of which "default" is what the
front takes. What RECORDS has already is left out, so the same command goes on after a stop. Contestants of a problem
run in one process, in blocks of 5 ms in random order, so clocks are equal. A block is a CUDA graph over inputs that
together exceed the L2. Builds run in other processes meanwhile. BUILDS is a folder that keeps them; `--build` fills it
ahead, without a GPU. `--tiles` adds the library's tile to the products of RECORDS that have none.
"""

import json
import logging
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine import cores
from kernels.front.arguments import CAUSAL, SECOND
from kernels.front.candidates import STREAM_K, choice_of
from kernels.front.choice import Choice
from kernels.front.defaults import default
from kernels.front.launches import resolved
from kernels.front.library import first_tile, library_kernels
from kernels.front.model import LOSS
from kernels.front.places import Place, place

DEFAULT: Final = "default"
ROUNDS: Final = 16
BLOCK_US: Final = 5000.0
LAUNCHES_MAX: Final = 600  # in a graph
POOL_ELEMENTS: Final = 1 << 30
SET_BYTES: Final = 256 << 20  # of all inputs of a problem together: several times an L2
SETS_MAX: Final = 64
FLOPS_PER_US: Final = 650e6  # to guess how many launches fill a block
BYTES_PER_US: Final = 3.5e6
LAUNCH_US: Final = 4.0
ERROR_MAX: Final = 8e-3  # of the norm, against the library in the same dtype
SPIN_CYCLES: Final = 4_000_000  # 2 ms, in which the host queues the first blocks

Launch = Callable[..., object]


def build(key: str, name: str, choice: Choice, folder: str) -> str:
    """Compile a candidate to a shared library; in a process without a GPU."""
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    import tilelang

    logging.getLogger("tilelang").setLevel(logging.ERROR)
    from tilelang import tvm

    path = Path(folder) / f"{key}__{name}.so"
    if path.exists():
        return str(path)
    program = choice.program(parse_shape_key(key))
    kernel = tilelang.compile(
        program.prim_func,
        out_idx=None,
        target=tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}),
        pass_configs=dict(program.pass_configs) or None,
    )
    unfinished = path.with_name(f"unfinished_{path.name}")
    kernel.adapter.get_exportable_executable().export_library(str(unfinished))
    unfinished.rename(path)
    return str(path)


def load(problem: Problem, choice: Choice, path: str) -> Launch:
    from tilelang import tvm

    function = tvm.runtime.load_module(path).main
    if choice.family != STREAM_K:
        return function  # type: ignore[no-any-return]
    spaces = [
        torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device="cuda")
        for each in choice.program(problem).workspaces
    ]
    return lambda *tensors: function(*tensors, *spaces)


def library(problem: Problem) -> Launch:
    if problem.operator in CAUSAL:
        causal, shared = CAUSAL[problem.operator], problem.dims[1] != problem.dims[2]
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda q, k, v, out: attend(q, k, v, is_causal=causal, enable_gqa=shared)
    if problem.operator == "linear":
        return lambda a, w, out: torch.matmul(a, w.t(), out=out)
    return lambda a, b, out: torch.matmul(a, b, out=out)


def _choice(name: str, problem: Problem, where: Place) -> Choice:
    """A candidate by its name, or what the front would take for an untuned problem."""
    return default(problem, where) if name == DEFAULT else choice_of(name, problem, where.sms)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sets of tensors that are views of one pool of normal numbers, and an output."""

    sets: list[list[Tensor]]
    out: Tensor

    @classmethod
    def of(cls, problem: Problem, pool: Tensor) -> "Inputs":
        sizes = [math.prod(shape) for shape in problem.inputs]
        count = max(1, min(SETS_MAX, SET_BYTES // (2 * sum(sizes))))
        sets, at = [], 0
        for _ in range(count):
            tensors = []
            for shape, size in zip(problem.inputs, sizes, strict=True):
                if at + size > pool.numel():
                    at = 0
                tensors.append(pool[at : at + size].view(shape))
                at += -(-size // 128) * 128
            sets.append(tensors)
        return cls(sets, torch.empty(problem.output_shape, dtype=pool.dtype, device="cuda"))


def captured(launch: Launch, inputs: Inputs, launches: int, memory: Any) -> torch.cuda.CUDAGraph:
    """Not ``torch.cuda.graph``, which waits for the device and collects garbage."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=memory, capture_error_mode="thread_local")
        for index in range(launches):
            launch(*inputs.sets[index % len(inputs.sets)], inputs.out)
        graph.capture_end()
    return graph


@dataclass(slots=True)
class Race:
    """One problem under way on the device: ``finish`` waits for it and gives the record."""

    problem: Problem
    names: list[str]
    graphs: list[torch.cuda.CUDAGraph]
    errors: dict[str, Tensor]
    failed: dict[str, str]
    launches: int
    events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]]
    inputs: Inputs

    def finish(self) -> dict[str, Any]:
        torch.cuda.synchronize()
        times = [[first.elapsed_time(last) * 1e3 / self.launches for first, last in row] for row in self.events]
        base = [row[0] for row in times]
        record: dict[str, Any] = {"key": self.problem.shape_key, "us": round(statistics.median(base), 3)}
        record["ratios"] = {}
        for index, name in enumerate(self.names[1:], 1):
            error = float(self.errors[name])
            if not error < ERROR_MAX:
                self.failed[name] = f"off by {error:.2g}"
                continue
            ratios = [row[0] / row[index] for row in times]
            middle = statistics.median(ratios)
            spread = 1.4826 * statistics.median(abs(each - middle) for each in ratios)
            record["ratios"][name] = [round(middle, 4), round(1.96 * 1.2533 * spread / math.sqrt(len(ratios)), 4)]
        if self.failed:
            record["failed"] = self.failed
        return record | _asked(self.problem)


def _asked(problem: Problem) -> dict[str, Any]:
    """Of a product: the library's tile, where its kernels' names have one, and those names."""
    if problem.operator not in SECOND:
        return {}
    names = library_kernels(problem, resolved("cuda"))
    tile = first_tile(names)
    return ({"tile": tile} if tile else {}) | ({"kernels": names} if names else {})


def start(
    problem: Problem, paths: dict[str, tuple[Choice, str]], pool: Tensor, memory: Any, generator: random.Random
) -> Race:
    inputs, failed, errors = Inputs.of(problem, pool), dict[str, str](), dict[str, Tensor]()
    guess = max(problem.flops / FLOPS_PER_US, problem.bytes / BYTES_PER_US, LAUNCH_US)
    launches = max(1, min(LAUNCHES_MAX, round(BLOCK_US / guess)))
    torch_s = library(problem)
    made = torch_s(*inputs.sets[0], inputs.out)
    expected = made if problem.operator in CAUSAL else inputs.out.clone()
    assert isinstance(expected, Tensor)
    names, graphs = ["library"], [captured(torch_s, inputs, launches, memory)]
    for name, (choice, path) in paths.items():
        try:
            launch = load(problem, choice, path)
            inputs.out.fill_(float("nan"))
            launch(*inputs.sets[0], inputs.out)
            errors[name] = (inputs.out - expected).norm() / expected.norm()
            graphs.append(captured(launch, inputs, launches, memory))
            names.append(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"[:200]
    for graph in graphs:
        graph.replay()
    torch.cuda._sleep(SPIN_CYCLES)
    events = []
    for _ in range(ROUNDS):
        row = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in graphs]
        for index in generator.sample(range(len(graphs)), len(graphs)):
            row[index][0].record()
            graphs[index].replay()
            row[index][1].record()
        events.append(row)
    return Race(problem, names, graphs, errors, failed, launches, events, inputs)


def header() -> dict[str, Any]:
    import tilelang

    found = torch.cuda.get_device_properties(0)
    return {
        "device": found.name,
        "sms": found.multi_processor_count,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "tilelang": tilelang.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": ROUNDS,
    }


def measure(jobs: list[dict[str, Any]], folder: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Records in the order of the jobs, as many as the time allows; what a build lacks is named in the record."""
    started, generator = time.monotonic(), random.Random(0)
    with ProcessPoolExecutor(max(1, cores.usable() - 1), get_context("spawn")) as builders:
        where, builds = place(resolved("cuda")), list[dict[str, tuple[Choice, Future[str]]]]()
        for job in jobs:
            choices = {name: _choice(name, parse_shape_key(job["key"]), where) for name in job["candidates"]}
            builds.append(
                {
                    name: (choice, builders.submit(build, job["key"], name, choice, folder))
                    for name, choice in choices.items()
                    if choice.family is not None
                }
            )
        pools = {
            name: torch.randn(POOL_ELEMENTS, dtype=getattr(torch, name), device="cuda")
            for name in ("bfloat16", "float16")
        }
        memory, under_way = torch.cuda.graph_pool_handle(), None
        for job, made in zip(jobs, builds, strict=True):
            left = started + seconds - time.monotonic()
            paths, failed = dict[str, tuple[Choice, str]](), dict[str, str]()
            for name, (choice, future) in made.items():
                try:
                    paths[name] = choice, future.result(timeout=max(0.0, left))
                except TimeoutError:
                    break
                except Exception as error:
                    failed[name] = f"{type(error).__name__}: {error}"[:200]
            if time.monotonic() > started + seconds:
                break
            problem = parse_shape_key(job["key"])
            if not paths and not failed:
                yield {"key": job["key"], "ratios": {}}  # the library's, as the front would say
                continue
            race = start(problem, paths, pools[problem.input], memory, generator)
            race.failed |= failed
            if under_way is not None:
                yield under_way.finish()
            under_way = race
        if under_way is not None:
            yield under_way.finish()
        for futures in builds:
            for _, future in futures.values():
                future.cancel()
        for process in list((builders._processes or {}).values()):
            process.terminate()


def summary(records: list[dict[str, Any]]) -> str:
    """Of products and of attentions: how often the front took a kernel of its own, and how that did."""
    lines = []
    for kind, operators in (("products", SECOND), ("attentions", CAUSAL)):
        drawn = [each for each in records if each["key"].partition("_")[0] in operators]
        own = [(each["key"], *each["ratios"][DEFAULT]) for each in drawn if DEFAULT in each["ratios"]]
        if own:
            mean = math.exp(statistics.fmean(math.log(ratio) for _, ratio, _ in own))
            losses = [key for key, ratio, half in own if ratio + half < LOSS]
            worst = min(ratio for _, ratio, _ in own)
            lines.append(
                f"{kind}: own {len(own)} of {len(drawn)}, geomean {mean:.4f}, worst {worst:.4f}, below {LOSS}: {losses}"
            )
    return "\n".join(lines)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []


def missing(jobs: list[dict[str, Any]], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs without the candidates that are recorded already, nor those that failed."""
    done = {(each["key"], name) for each in records for name in (*each["ratios"], *each.get("failed", ()))}
    done |= {(each["key"], DEFAULT) for each in records if not each["ratios"]}
    left = [
        {**job, "candidates": [each for each in job["candidates"] if (job["key"], each) not in done]} for job in jobs
    ]
    return [job for job in left if job["candidates"]]


def ask_tiles(path: Path) -> int:
    """Add a record with the library's tile for each product without one; returns how many there are."""
    _, *records = lines(path)
    known = {each["key"] for each in records if "tile" in each or "kernels" in each}
    keys = dict.fromkeys(each["key"] for each in records if each["key"].partition("_")[0] in SECOND)
    said = {key: _asked(parse_shape_key(key)) for key in keys if key not in known}
    with path.open("a") as file:
        file.writelines(json.dumps({"key": key, "ratios": {}} | each) + "\n" for key, each in said.items() if each)
    return sum(map(bool, said.values()))


def prebuild(jobs: list[dict[str, Any]], folder: str, seconds: float) -> int:
    """Compile candidates in the order of the jobs for as long as the time allows; returns how many there are."""
    until = time.monotonic() + seconds
    wanted = [(job["key"], name) for job in jobs for name in job["candidates"] if name != DEFAULT]
    with ProcessPoolExecutor(cores.jobs(), get_context("spawn")) as builders:
        tasks = [builders.submit(_build_before, until, key, name, folder) for key, name in wanted]
        return sum(each.result() for each in tasks)


def _build_before(until: float, key: str, name: str, folder: str) -> bool:
    if time.monotonic() > until:
        return False
    build(key, name, choice_of(name, parse_shape_key(key)), folder)
    return True


def main(arguments: list[str]) -> None:
    """Each record is written when it is there, so that a run that is cut off leaves those before."""
    if arguments[0] == "--build":
        Path(arguments[2]).mkdir(parents=True, exist_ok=True)
        print(prebuild(lines(Path(arguments[1])), arguments[2], float(arguments[3])), "builds")
        return
    path = Path(arguments[1])
    if arguments[0] == "--tiles":
        print(ask_tiles(path), "tiles asked for")
        return
    earlier = lines(path)
    jobs = missing(lines(Path(arguments[0])), earlier[1:])
    seconds = float(arguments[2]) if len(arguments) > 2 else math.inf
    records = []
    with path.open("a") as file, tempfile.TemporaryDirectory() as temporary:
        if not earlier:
            file.write(json.dumps(header()) + "\n")
        for record in measure(jobs, arguments[3] if len(arguments) > 3 else temporary, seconds):
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()
            ratios = " ".join(f"{name} {ratio:.3f}" for name, (ratio, _) in record["ratios"].items())
            print(record["key"], ratios or "library", record.get("failed", ""), flush=True)
    print(summary(records))


if __name__ == "__main__":
    main(sys.argv[1:])
