"""The hints of TileLang's carver for a matrix product on given hardware, as a family's levers.

Runs where TileLang is imported. ``carver.arch.CUDA`` asks the driver. Here the GPU table describes the device instead,
so that the hints are the same with and without a GPU.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from harness.errors import described
from harness.extras.tune.space import Config
from harness.judge.facts.architectures import DEFAULT_SHARED, REGISTERS, SUB_PARTITIONS, WARP, WARP_GROUP
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

SUGGESTIONS: Final = 10
_DTYPES: Final = {"float8_e4m3fn": "float8_e4m3"}  # the carver's spelling


class NoSuggestions(Exception):
    """The carver has no hints; the message says why."""


def suggest(problem: Problem, gpu: Gpu, base: Mapping[str, Any], levers: frozenset[str]) -> list[Config]:
    """Configurations of a family from the carver's hints; raises NoSuggestions.

    ``base`` gives the levers that a hint does not set, ``levers`` are the family's own. A hint's block becomes the
    tile, its rstep block_K, its pipeline stages num_stages, and its warps the threads, in whole warp groups.
    """
    if gpu.is_cpu:
        raise NoSuggestions("the carver describes no CPU: its hints are for the targets cuda, hip and metal")
    if problem.operator not in ("matmul", "linear"):
        raise NoSuggestions(f"no template of the carver is a {problem.operator}")
    found = []
    for hint in hints(problem, gpu):
        said = {
            "block_M": int(hint.block[0]),
            "block_N": int(hint.block[1]),
            "block_K": int(hint.rstep[0]),
            "num_stages": max(2, int(hint.pipeline_stage)),
            "consumer_groups": 2 if hint.block[0] % WARP_GROUP == 0 else 1,  # 64 rows of the tile for each
        }
        if hint.use_tc and len(hint.warp) == 2:
            warps = (hint.block[0] // hint.warp[0]) * (hint.block[1] // hint.warp[1])
            said["threads"] = max(WARP_GROUP, int(warps) * WARP // WARP_GROUP * WARP_GROUP)
        found.append({**base, **{name: value for name, value in said.items() if name in levers}})
    return found


def hints(problem: Problem, gpu: Gpu) -> list[Any]:
    """The carver's hints, best first by its own model; raises NoSuggestions."""
    from tilelang.carver.template import MatmulTemplate

    rows, columns, depth = problem.dims
    device = _described(gpu)
    template = MatmulTemplate(
        M=rows,
        N=columns,
        K=depth,
        trans_B=problem.operator == "linear",
        in_dtype=_DTYPES.get(problem.input, problem.input),
        out_dtype=_DTYPES.get(problem.output, problem.output),
        accum_dtype=problem.accumulator,
    ).with_arch(device)
    try:
        with _known_to_analysis(device):
            return list(template.recommend_hints(topk=SUGGESTIONS) or [])
    except Exception as error:  # the carver gives up on odd shapes in many ways
        raise NoSuggestions(f"the carver gave up: {described(error, 200)}") from None


def _described(gpu: Gpu) -> Any:
    """The carver's description of a GPU, made without the driver."""
    from tilelang import tvm
    from tilelang.carver.arch import CUDA
    from tilelang.carver.arch.cuda import check_sm_version

    device = CUDA.__new__(CUDA)
    version = check_sm_version(gpu.arch)
    fields = {
        "target": tvm.target.Target({"kind": "cuda", "arch": gpu.arch}),
        "sm_version": version,
        "name": gpu.key,
        "device": None,
        "platform": "CUDA",
        "smem_cap": DEFAULT_SHARED,
        "max_smem_usage": 2 * DEFAULT_SHARED,
        "reg_cap": REGISTERS,
        "compute_max_core": gpu.sms or 1,
        "compute_capability": str(version),
        "warp_size": WARP,
        "sm_partition": SUB_PARTITIONS,
        "l2_cache_size_bytes": gpu.l2_mib << 20,
        "transaction_size": [32, 128],
        "bandwidth": [750, 12080],  # TileLang's constant: only their quotient counts
        "available_tensor_instructions": None,
    }
    for name, value in fields.items():
        setattr(device, name, value)
    return device


@contextmanager
def _known_to_analysis(device: Any) -> Iterator[None]:
    """Give our description to the analysis for tensor cores, which would ask the driver for its own."""
    from tilelang.carver import matmul_analysis

    original = matmul_analysis.get_arch
    matmul_analysis.get_arch = lambda target: device
    try:
        yield
    finally:
        matmul_analysis.get_arch = original
