"""Time candidates beside the library in one process, in blocks of random order, so that clocks are equal.

A block on a GPU is a CUDA graph over inputs that together exceed the L2.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from harness.judge.facts.problem import Problem
from kernels.front.arguments import CAUSAL
from kernels.front.library import capturing, library_attention, library_of

ROUNDS: Final = 16
BLOCK_US: Final = 5000.0
LAUNCHES_MAX: Final = 600  # in a graph
SET_BYTES: Final = 256 << 20  # of all inputs of a problem together: several times an L2
SETS_MAX: Final = 64
FLOPS_PER_US: Final = 650e6  # to guess how many launches fill a block
BYTES_PER_US: Final = 3.5e6
LAUNCH_US: Final = 4.0
ERROR_MAX: Final = 8e-3  # of the norm, against the library in the same dtype
ERROR_MAX_ON_CPU: Final = 1e-5  # in float32
BLOCK_ON_CPU_S: Final = 2e-3
SPIN_CYCLES: Final = 4_000_000  # 2 ms, in which the host queues the first blocks

Launch = Callable[..., object]  # (a, b, out), two-dimensional; of attention (q, k, v, out)


def library(problem: Problem) -> Launch:
    """The library's call alone: its attention returns a tensor, and is not timed with a copy into ``out``."""
    if problem.operator in CAUSAL:
        causal = CAUSAL[problem.operator]
        return lambda q, k, v, out: library_attention(q, k, v, causal=causal)
    return library_of(problem)


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
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), capturing(graph, pool=memory):
        for index in range(launches):
            launch(*inputs.sets[index % len(inputs.sets)], inputs.out)
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
            record["ratios"][name] = [round(each, 4) for each in ratio(base, [row[index] for row in times])]
        if self.failed:
            record["failed"] = self.failed
        return record


def ratio(base: Sequence[float], own: Sequence[float]) -> tuple[float, float]:
    """How many times as fast as the library, the median of the rounds, and half of its 95% interval."""
    ratios = [first / second for first, second in zip(base, own, strict=True)]
    middle = statistics.median(ratios)
    spread = 1.4826 * statistics.median(abs(each - middle) for each in ratios)
    return middle, 1.96 * 1.2533 * spread / math.sqrt(len(ratios))


def start(
    problem: Problem, launches: Mapping[str, Launch], pool: Tensor, memory: Any, generator: random.Random
) -> Race:
    """Queue a race of candidates on the device; each writes the output that comes last."""
    inputs, failed, errors = Inputs.of(problem, pool), dict[str, str](), dict[str, Tensor]()
    guess = max(problem.flops / FLOPS_PER_US, problem.bytes / BYTES_PER_US, LAUNCH_US)
    in_graph = max(1, min(LAUNCHES_MAX, round(BLOCK_US / guess)))
    torch_s = library(problem)
    made = torch_s(*inputs.sets[0], inputs.out)
    expected = made if problem.operator in CAUSAL else inputs.out.clone()
    assert isinstance(expected, Tensor)
    names, graphs = ["library"], [captured(torch_s, inputs, in_graph, memory)]
    for name, launch in launches.items():
        try:
            inputs.out.fill_(float("nan"))
            launch(*inputs.sets[0], inputs.out)
            errors[name] = (inputs.out - expected).norm() / expected.norm()
            graphs.append(captured(launch, inputs, in_graph, memory))
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
    return Race(problem, names, graphs, errors, failed, in_graph, events, inputs)


def race_on_cpu(problem: Problem, launches: Mapping[str, Launch]) -> dict[str, Any]:
    """Race candidates on a CPU, and give the ratios of those that are right."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator) for shape in problem.inputs]
    out, torch_s = torch.empty(problem.output_shape), library(problem)
    torch_s(*inputs, out)
    expected = out.clone()
    racing = {"library": torch_s}
    for name, launch in launches.items():
        out.fill_(float("nan"))
        launch(*inputs, out)
        if float((out - expected).norm() / expected.norm()) < ERROR_MAX_ON_CPU:
            racing[name] = launch
    in_block = max(1, min(LAUNCHES_MAX, round(BLOCK_ON_CPU_S / _seconds(torch_s, inputs, out, 1))))
    times: dict[str, list[float]] = {name: [] for name in racing}
    order = random.Random(0)
    for _ in range(ROUNDS):
        for name in order.sample(list(racing), len(racing)):
            times[name].append(_seconds(racing[name], inputs, out, in_block))
    base = times.pop("library")
    return {"ratios": {name: [round(each, 4) for each in ratio(base, own)] for name, own in times.items()}}


def _seconds(launch: Launch, inputs: Sequence[Tensor], out: Tensor, launches: int) -> float:
    began = time.perf_counter()
    for _ in range(launches):
        launch(*inputs, out)
    return time.perf_counter() - began
