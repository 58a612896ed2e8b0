"""The protocol of a warp-specialised kernel, run on the CPU from the very text that TileLang generates for sm_90a."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tilelang
from tilelang import tvm

from harness.iteration import Program
from harness.judge.facts.problem import Problem

HEADER: Final = Path(__file__).with_name("emulation.hpp")
SYNC: Final = "cudaGridDependencySynchronize();"
TRIGGER: Final = "cudaTriggerProgrammaticLaunchCompletion();"
_MAIN: Final = """
int main() {{
  GROUPS = {groups}, K = {K}, K_MAJOR_B = {k_major_B}, CLUSTER = {cluster};
  CUtensorMap A{{'A', {box_A}}}, B{{'B', {box_B}}}, C{{'C', 0}};
  std::vector<Block> blocks({blocks});
  grid = &blocks;
  std::vector<std::thread> threads;
  for (int number = 0; number < {blocks}; ++number) {{
    for (int group = 0; group <= GROUPS; ++group) {{
      threads.emplace_back([&, number, group] {{
        block = &blocks[number], blockIdx.x = number, threadIdx.x = 128 * group;
        main_kernel({parameters});
      }});
    }}
  }}
  for (auto& each : threads) each.join();
  for (auto& each : blocks) for (auto& load : each.loads) load.join();
  for (auto& [m, n] : stored) std::printf("%d %d\\n", m, n);
}}
"""


@dataclass(frozen=True)
class Outcome:
    """What went wrong first, or None; ``stored`` is (m, n) of every store to C."""

    wrong: str | None
    stored: tuple[tuple[int, int], ...]


_GENERATED: Final[dict[tuple[int, str], str]] = {}  # several mistakes are made in one text


def generated(program: Program) -> str:
    """The CUDA text for sm_90a."""
    key = tvm.ir.structural_hash(program.prim_func, map_free_vars=True), repr(program.pass_configs)
    if key not in _GENERATED:
        _GENERATED[key] = _lowered(program)
    return _GENERATED[key]


def _lowered(program: Program) -> str:
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with tvm.transform.PassContext(opt_level=3, config=dict(program.pass_configs)), target:
        source: str = tilelang.lower(program.prim_func, target=target).kernel_source
    return source


def emulate(
    source: str,
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    groups: int,
    blocks: int,
    folder: Path,
    cluster: int = 1,
) -> Outcome:
    """Run a kernel of 16-bit operands with 128-byte swizzled rows, without multicast; all of its blocks at once."""
    k_major = problem.operator == "linear"
    text = source[source.index('extern "C" __global__ void __launch_bounds__') :]
    parameters = re.search(r"main_kernel\((.*?)\) \{", text)
    assert parameters is not None
    order = ", ".join(re.findall(r"(\w)_desc", parameters[1]))
    text = re.sub(r"extern __shared__ \S+ uchar (\w+)\[\];", r"uchar* \1 = block->shared.data();", text)
    text, replaced = re.subn(
        r"__shared__ __align__\(16\) uint64_t (\w+)_mem\[(\d+)\];", r'Barrier* \1_mem = barriers("\1", \2);', text
    )
    assert replaced >= 2
    main = _MAIN.format(
        groups=groups,
        K=problem.dims[2],
        k_major_B=int(k_major),
        cluster=cluster,
        box_A=2 * block_M * min(block_K, 64),
        box_B=2 * (block_N * min(block_K, 64) if k_major else block_K * 64),
        blocks=blocks,
        parameters=order,
    )
    (folder / "kernel.cpp").write_text(f'#include "{HEADER}"\n{text}\n{main}')
    command = ["g++", "-std=c++20", "-O1", "-w", "-pthread", "kernel.cpp", "-o", "kernel"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./kernel"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return Outcome(done.stdout.strip() or f"exit code {done.returncode}", ())
    return Outcome(None, tuple((int(m), int(n)) for m, n in (line.split() for line in done.stdout.splitlines())))
