"""Measure candidates beside the library on this GPU, for the front's model to be fitted to.

    python -m kernels.front.measure JOBS RECORDS [SECONDS [BUILDS]]
    python -m kernels.front.measure --build JOBS BUILDS SECONDS
    python -m kernels.front.measure --tiles RECORDS

JOBS has a JSON object a line: ``key`` is a shape key, ``candidates`` a list of names, of which "default" is what the
front takes. What RECORDS has already is left out, so the same command goes on after a stop. Builds run in other
processes meanwhile. BUILDS is a folder that keeps them; `--build` fills it ahead, without a GPU. `--tiles` adds the
library's tile to the products of RECORDS that have none.
"""

import hashlib
import json
import logging
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import tilelang
import torch
from tilelang import tvm

from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine import cores
from kernels.front.arguments import CAUSAL, SECOND
from kernels.front.candidates import STREAM_K, choice_of
from kernels.front.choice import Choice
from kernels.front.defaults import default
from kernels.front.launches import kernel_of, resolved
from kernels.front.library import first_tile, library_kernels
from kernels.front.model import LOSS
from kernels.front.places import Place, place
from kernels.front.timing import ROUNDS, Launch, Race, start

DEFAULT: Final = "default"
POOL_ELEMENTS: Final = 1 << 30


def build(key: str, name: str, choice: Choice, folder: str) -> str:
    """Compile a candidate to a shared library with its levers in the name; in a process without a GPU."""
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    logging.getLogger("tilelang").setLevel(logging.ERROR)
    path = Path(folder) / f"{key}__{name}_{hashlib.sha256(repr(choice).encode()).hexdigest()[:8]}.so"
    if path.exists():
        return str(path)
    kernel = kernel_of(choice.program(parse_shape_key(key)), "sm_90a")
    unfinished = path.with_name(f"unfinished_{path.name}")
    kernel.adapter.get_exportable_executable().export_library(str(unfinished))
    unfinished.rename(path)
    return str(path)


def load(problem: Problem, choice: Choice, path: str) -> Launch:
    function = tvm.runtime.load_module(path).main
    if choice.family != STREAM_K:
        return function  # type: ignore[no-any-return]
    spaces = [
        torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device="cuda")
        for each in choice.program(problem).workspaces
    ]
    return lambda *tensors: function(*tensors, *spaces)


def _choice(name: str, problem: Problem, where: Place) -> Choice:
    """A candidate by its name, or what the front would take for an untuned problem."""
    return default(problem, where) if name == DEFAULT else choice_of(name, problem, where.sms)


def _finished(race: Race) -> dict[str, Any]:
    return race.finish() | _asked(race.problem)


def _asked(problem: Problem) -> dict[str, Any]:
    """Of a product: the library's tile, where its kernels' names have one, and those names."""
    if problem.operator not in SECOND:
        return {}
    names = library_kernels(problem, resolved("cuda"))
    tile = first_tile(names)
    return ({"tile": tile} if tile else {}) | ({"kernels": names} if names else {})


def header() -> dict[str, Any]:
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


@contextmanager
def _builders() -> Iterator[ProcessPoolExecutor]:
    """Processes that build; they end with the measurement, whatever they have in hand."""
    pool = ProcessPoolExecutor(max(1, cores.usable() - 1), get_context("spawn"))
    try:
        yield pool
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def measure(jobs: list[dict[str, Any]], folder: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Records in the order of the jobs, as many as the time allows; what a build lacks is named in the record."""
    started, generator = time.monotonic(), random.Random(0)
    with _builders() as builders:
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
            launches = dict[str, Launch]()
            for name, (choice, path) in paths.items():
                try:
                    launches[name] = load(problem, choice, path)
                except Exception as error:
                    failed[name] = f"{type(error).__name__}: {error}"[:200]
            race = start(problem, launches, pools[problem.input], memory, generator)
            race.failed |= failed
            if under_way is not None:
                yield _finished(under_way)
            under_way = race
        if under_way is not None:
            yield _finished(under_way)


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
