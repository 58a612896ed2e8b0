"""What a warp-specialised kernel computes, on the CPU, from the very text that TileLang generates for sm_90a."""

import ctypes
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import torch

from harness.iteration import Program
from kernels.attention_backward.finishing import COUNT_FUNCTION, FINISH_FUNCTIONS
from kernels.attention_backward.kernel import FUNCTIONS as BACKWARD_FUNCTIONS
from kernels.flash_attention.kept_maxima import FUNCTIONS as FUNCTIONS_OF_KEPT_MAXIMA
from kernels.flash_attention.steps import FUNCTIONS_BY_ROW
from kernels.gemm.int4_weights.kernel import FUNCTIONS as INT4_FUNCTIONS
from kernels.latent_decode.alternating import REGISTER_FUNCTIONS
from kernels.paged_decode.kernel import LINE_FUNCTION
from tests.harness.operators.launches import wrong
from tests.kernels.emulation import generated

HEADER: Final = Path(__file__).with_name("numbers.hpp")
_LAUNCH: Final = """
extern "C" const char* launch(void** tensors) {{
  alignas(1024) static uchar memory[{cluster} * SHARED_BYTES];
  memories = memory, wrong = "";
  try {{
    {launches}
  }} catch (const std::runtime_error&) {{ under_way.clear(); }}
  return wrong.c_str();
}}
"""

_KERNEL: Final = """
    {{
      {maps}
      grid = {{{grid}}};
      for (int first = 0; first < {blocks}; first += {cluster})
        run_cluster(first, {cluster}, {threads}, [&] {{ {name}({arguments}); }});
    }}"""

# Of kernels, which compute here as they stand.
FUNCTIONS: Final = (
    FUNCTIONS_BY_ROW,
    FUNCTIONS_OF_KEPT_MAXIMA,
    BACKWARD_FUNCTIONS,
    COUNT_FUNCTION,
    FINISH_FUNCTIONS,
    REGISTER_FUNCTIONS,
    LINE_FUNCTION,
    INT4_FUNCTIONS,
)
CONVERSION: Final = r'asm\("cvt\.rn\.\S+ .*?" : "=r"\((.*?)\) : "f"\((.*?)\), "f"\((.*?)\)\);'
# a & b | c, and arithmetic of pairs
LOGIC: Final = r'asm\("lop3\.b32 %0, %0, (\w+), (\w+), 0xea;" : "\+r"\((\w+)\)\);'
PAIRS: Final = r'asm\("(sub|mul)\.rn\.bf16x2 %0, %0, %1;" : "\+r"\((.*?)\) : "r"\((.*?)\)\);'
REDUCTION: Final = r'asm volatile\("red\.global\.add\.v4\.f32 .*?\);'


class Stopped(Exception):
    """A kernel that cannot go on, such as by a deadlock."""


Box = tuple[tuple[int, ...], tuple[int, ...]]  # the tensor's axes from the innermost coordinate on; what a load takes


def emulated(
    program: Program,
    blocks: int | Sequence[tuple[int, ...]],
    boxes: Mapping[str, Box],
    folder: Path,
    broken: tuple[str, str] | None = None,
    cluster: int = 1,
    swizzles: Mapping[str, int] | None = None,
) -> Callable[..., None]:
    """Return a launch of the program for tensors of bf16, without its workspaces. It raises Stopped.

    ``blocks`` are those of its only kernel, or the grids of all. ``boxes`` describes the loads and stores by TMA of
    each tensor, named as in the prim_func. ``swizzles`` says how many bytes the swizzle of a tensor is wide, or 0. By
    default 16-bit numbers have 128, and others none. ``broken`` is a pattern in the kernel's text, and what stands
    there instead.
    """
    source = generated(program)
    own = "".join(each for each in FUNCTIONS if each in source)
    if broken is not None:
        source, count = re.subn(*broken, source)
        assert count
        own = re.sub(*broken, own)
    text = source[source.index('extern "C" __global__ void __launch_bounds__') :]
    schedule = re.search(r"static __device__ const int scheduled_tiles.*?\n\}\n", source, re.DOTALL)
    kernels = re.findall(r"__launch_bounds__\((\d+).*? (\w+_kernel\w*)\((.*?)\) \{", text)
    grids = [(blocks,)] if isinstance(blocks, int) else blocks
    launches = [
        _launch(program, threads, name, signature, grid, boxes, swizzles or {}, cluster)
        for (threads, name, signature), grid in zip(kernels, grids, strict=True)
    ]
    text = re.sub(r"extern __shared__ \S+ uchar (\w+)\[\];", r"uchar* \1 = shared_memory;", text)
    text = re.sub(
        r"__shared__ __align__\(16\) uint64_t (\w+)_mem\[(\d+)\];", r'Barrier* \1_mem = barriers("\1", \2);', text
    )
    assert "__shared__" not in text
    main = _LAUNCH.format(cluster=cluster, launches="".join(launches))
    converting = re.sub(CONVERSION, r"\1 = __pack_nv_bfloat162(bfloat16_t(\3), bfloat16_t(\2));", own)
    converting = re.sub(LOGIC, r"\3 = \3 & \1 | \2;", converting)
    converting = re.sub(PAIRS, r"\2 = \1_pairs(\2, \3);", converting)
    converting = re.sub(REDUCTION, "atomicAdd(to, value);", converting, flags=re.DOTALL)
    functions = re.sub(r"asm volatile\(.*?\);", ";", converting, flags=re.DOTALL)
    text = (schedule[0] if schedule else "") + functions + text
    (folder / "kernel.cpp").write_text(f'#include "{HEADER}"\n{text}\n{main}')
    command = [
        "g++",
        "-std=c++20",
        "-O2",
        "-fno-strict-aliasing",
        "-w",
        "-fPIC",
        "-shared",
        "kernel.cpp",
        "-o",
        "kernel.so",
    ]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "kernel.so"))
    library.launch.restype = ctypes.c_char_p
    workspaces = [torch.zeros(each.shape, dtype=getattr(torch, each.dtype)) for each in program.workspaces]

    def launch(*tensors: Any) -> None:
        every = [*tensors, *workspaces]
        assert all(each.is_contiguous() for each in every)
        wrong = library.launch((ctypes.c_void_p * len(every))(*(each.data_ptr() for each in every)))
        if wrong:
            raise Stopped(wrong.decode())

    return launch


def faults(shape_key: str, launch: Callable[..., None]) -> set[str]:
    """What is wrong with what a launch computes, or why it stopped."""
    try:
        return wrong(shape_key, launch)
    except Stopped as stopped:
        return {str(stopped)}


def _launch(
    program: Program,
    threads: str,
    name: str,
    signature: str,
    grid: tuple[int, ...],
    boxes: Mapping[str, Box],
    swizzles: Mapping[str, int],
    cluster: int,
) -> str:
    """The text that launches one kernel."""
    buffers = [program.prim_func.buffer_map[each] for each in program.prim_func.params]
    names = [each.name for each in buffers]
    parameters = re.findall(r"(\w+)(?:,|$)", signature)
    maps = []
    for tensor in (each.removesuffix("_desc") for each in parameters if each.endswith("_desc")):
        shape = [int(size) for size in buffers[names.index(tensor)].shape]
        strides = [int(torch.empty(shape, device="meta").stride(axis)) for axis in boxes[tensor][0]]
        sizes = [shape[axis] for axis in boxes[tensor][0]]
        lists = ", ".join("{" + ", ".join(map(str, each)) + "}" for each in (sizes, strides, boxes[tensor][1]))
        element_bytes = getattr(torch, str(buffers[names.index(tensor)].dtype)).itemsize
        swizzle = swizzles.get(tensor, 128 * (element_bytes == 2))
        address = f"(uchar*)tensors[{names.index(tensor)}]"
        maps.append(f"CUtensorMap {tensor}_desc{{{address}, {element_bytes}, {swizzle}, {lists}}};")
    arguments = [
        each if each.endswith("_desc") else f"({_pointer(signature, each)}*)tensors[{names.index(each)}]"
        for each in parameters
    ]
    return _KERNEL.format(
        maps="\n      ".join(maps),
        grid=", ".join(map(str, (*grid, 1, 1)[:3])),
        blocks=prod(grid),
        cluster=cluster,
        threads=threads,
        name=name,
        arguments=", ".join(arguments),
    )


def _pointer(text: str, name: str) -> str:
    found = re.search(rf"(\w+)\* (?:__restrict__ )?{name}\b", text)  # none where a kernel may start early
    assert found is not None
    return found[1]
