"""New iterations: the next one of a folder, and a starter ladder for a GPU that has none."""

import ast
import fcntl
import itertools
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import gpus, scripts
from harness.errors import UsageError
from harness.gpus import Gpu
from harness.problem import DTYPE_BYTES, Problem, parse_shape_key
from harness.tree import Iteration, Selection, Tree, check_model

PLACEHOLDER: Final = "Say here, in one sentence, what changes in {name} and why."  # the name, since no two may be equal
MODEL: Final = "tilebench"  # who tuned the starter ladders
LAST_NUMBER: Final = 999
WIDTH: Final = 120

_TAG: Final = re.compile(r"[a-z][a-z0-9_]{1,30}", re.ASCII)
_NUMBER: Final = re.compile(r"(?:iter)?([0-9]{1,3})", re.ASCII)
_BASELINE_TAG: Final = "torch_matmul"
_BASELINE_OPERATORS: Final = ("matmul", "linear")

# Every iteration that tilebench writes has this form; ruff leaves it as it is.
_TEMPLATE: Final = """\
{docstring}

{imports}

PARENT = {parent}
{config}


def build(problem: Problem) -> {returns}:
    return {result}


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """An iteration before it has a number and a parent; ``family`` is the dotted name of a function of ``kernels``."""

    tag: str
    idea: str
    family: str
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Drafts, each a step from the one before, and the shape keys that start with them."""

    shape_keys: tuple[str, ...]
    drafts: tuple[Draft, ...]


def new(tree: Tree, gpu_key: str, shape: str, model: str, parent: str | None, tag: str) -> Path:
    """Write the next iteration of a folder, a copy of its parent to be edited, and return its path.

    The parent is the named one (``3``, ``003``, ``iter003`` or ``iter003_tag``), else the folder's newest. An empty
    folder gets iter000 first; what follows iter000 pins a family that fits the problem. Raises UsageError.
    """
    gpu, problem = gpus.find(gpu_key), parse_shape_key(shape)
    check_model(model)
    if _TAG.fullmatch(tag) is None:
        raise UsageError(f"tag '{tag}' does not match {_TAG.pattern}; name the idea in it, as in four_stages")
    folder = _folder(tree, gpu, problem, model)
    where = tree.short(folder)
    with _alone(tree):
        present = [
            each for each in tree.scan(gpu.key, Selection(problem.shape_key, model))[0] if each.path.parent == folder
        ]
        base = _named(parent, present, where) if parent is not None else present[-1] if present else None
        number = max((each.number for each in present), default=0) + 1
        if number > LAST_NUMBER:
            raise UsageError(f"{where} is full: {LAST_NUMBER} is the last number; go on under another model's name")
        idea = PLACEHOLDER.format(name=f"iter{number:03d}_{tag}")
        if base is not None and base.number > 0:
            return _write(tree, folder, number, tag, _taken_over(base, idea, tree.short(base.path))).path
        draft = _draft(problem, gpu)  # iter000 calls the library, which no other may: its source cannot be taken over
        base = base or _write(tree, folder, 0, _BASELINE_TAG, _baseline())
        return _write(tree, folder, number, tag, _kernel(draft.family, idea, draft.config, base.name)).path


def starter(tree: Tree, gpu: Gpu) -> list[Path]:
    """Write a small ladder for each of a few problems, where a GPU key has no iterations; the paths of what it wrote.

    Raises UsageError for an architecture that no ladder is made for.
    """
    with _alone(tree):
        if tree.scan(gpu.key, Selection())[0]:
            return []
        ladder = _ladder(gpu)
        if ladder is None:
            raise UsageError(
                f"GPU key '{gpu.key}' has no iterations, and no starter ladder is made for {gpu.arch}; "
                f"write the first by hand under {tree.short(tree.folder(gpu.key))}/srcs/"
            )
        return [path for key in ladder.shape_keys for path in _climb(tree, gpu, parse_shape_key(key), ladder.drafts)]


def _climb(tree: Tree, gpu: Gpu, problem: Problem, drafts: Sequence[Draft]) -> list[Path]:
    """iter000 and an iteration a draft, each the parent of the next."""
    folder = _folder(tree, gpu, problem, MODEL)
    steps = [_write(tree, folder, 0, _BASELINE_TAG, _baseline())]
    for number, draft in enumerate(drafts, start=1):
        source = _kernel(draft.family, draft.idea, draft.config, steps[-1].name)
        steps.append(_write(tree, folder, number, draft.tag, source))
    return [step.path for step in steps]


# Source text


def _baseline() -> str:
    """iter000, the library's call."""
    return _TEMPLATE.format(
        docstring=_docstring("torch.matmul, which a user would call instead of a kernel of this ladder."),
        imports="from baselines import library\n"
        "from baselines.interface import Baseline\n"
        "from harness.iteration import Problem, bench_with, main, verify_with",
        parent=None,
        config="CONFIG: dict[str, object] = {}",
        returns="Baseline",
        result="library(problem)",
    )


def _kernel(family: str, idea: str, config: Mapping[str, object], parent: str) -> str:
    """An iteration that pins a family."""
    module, _, function = family.rpartition(".")
    return _TEMPLATE.format(
        docstring=_docstring(idea),
        imports="from harness.iteration import Problem, Program, bench_with, main, verify_with\n"
        f"from {module} import {function}",
        parent=_literal(parent),
        config=_pinned(config),
        returns="Program",
        result=f"{function}(problem, **CONFIG)",
    )


def _docstring(idea: str) -> str:
    return textwrap.fill(f'"""{idea}"""', WIDTH, break_long_words=False, break_on_hyphens=False)


def _pinned(config: Mapping[str, object]) -> str:
    items = [f"{name}={_literal(value)}" for name, value in config.items()]
    line = f"CONFIG = dict({', '.join(items)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join(("CONFIG = dict(", *(f"    {item}," for item in items), ")"))


def _literal(value: object) -> str:
    return repr(value).replace("'", '"')  # names and flags, which hold no quotes of their own


def _taken_over(parent: Iteration, idea: str, where: str) -> str:
    """The parent's source, with another docstring and PARENT set to it."""
    try:
        source = parent.path.read_text(encoding="utf-8-sig")
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{where} does not parse ({error}); repair it, or name another with --parent") from None
    text = source.encode()  # ast counts columns in bytes of UTF-8
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split(b"\n")), initial=0))

    def span(node: ast.expr) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return starts[node.lineno - 1] + node.col_offset, starts[last - 1] + column

    described, named = _docstring_of(module), _parent_of(module)
    edits = []
    if described is not None:
        edits.append((*span(described), _docstring(idea)))
    else:
        edits.append((0, 0, f"{_docstring(idea)}\n\n"))
    if named is not None:
        edits.append((*span(named), _literal(parent.name)))
    else:
        after = starts[max((node.end_lineno or 0 for node in module.body if _is_head(node)), default=0)]
        edits.append((after, after, f"\nPARENT = {_literal(parent.name)}\n"))
    for start, end, new in sorted(edits, reverse=True):  # the last first, so that the others' places stay
        text = text[:start] + new.encode() + text[end:]
    return text.decode()


def _docstring_of(module: ast.Module) -> ast.expr | None:
    first = module.body[0] if module.body else None
    return first.value if isinstance(first, ast.Expr) and ast.get_docstring(module) is not None else None


def _parent_of(module: ast.Module) -> ast.expr | None:
    """What PARENT is set to."""
    for node in module.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "PARENT" for target in targets):
            return node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return None


def _is_head(node: ast.stmt) -> bool:
    """The docstring or an import: PARENT comes after these."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom)


# Files


def _folder(tree: Tree, gpu: Gpu, problem: Problem, model: str) -> Path:
    return tree.folder(gpu.key) / "srcs" / problem.shape_key / model


def _named(name: str, present: Sequence[Iteration], where: str) -> Iteration:
    """The iteration of a folder that a person's name means."""
    number = _NUMBER.fullmatch(name)
    found = [each for each in present if (each.number == int(number[1]) if number else each.name == name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"parent '{name}' is ambiguous: {', '.join(each.name for each in found)}; name one in full")
    known = ", ".join(each.name for each in present) or "none: leave --parent out, and iter000 is written first"
    raise UsageError(f"parent '{name}' is no iteration of {where}; there are {known}")


def _write(tree: Tree, folder: Path, number: int, tag: str, source: str) -> Iteration:
    """A new file, never over one that is there, and its build and run scripts."""
    iteration = tree.parse(folder / f"iter{number:03d}_{tag}.py")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with iteration.path.open("x", encoding="utf-8") as file:
            file.write(source)
    except FileExistsError:
        raise UsageError(f"{tree.short(iteration.path)} is there already; nothing was overwritten") from None
    scripts.write(tree, iteration)
    return iteration


@contextmanager
def _alone(tree: Tree) -> Iterator[None]:
    """One writer in a tree at a time, so that no number is given twice."""
    base = tree.root / "tuning"
    base.mkdir(parents=True, exist_ok=True)
    handle = os.open(base, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# What to start with

_PIPELINED: Final = "kernels.gemm.pipelined"
_WARP_SPECIALIZED: Final = "kernels.gemm.warp_specialized"
_SCALAR: Final = "kernels.cpu.scalar_gemm"
_REGISTERS: Final = "kernels.cpu.register_blocked"

_STOCK: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 128,
    "block_K": 32,
    "num_stages": 3,
    "threads": 128,
    "policy": "square",
    "panel": 0,
    "epilogue": "direct",
}
_WIDE: Final = _STOCK | {"block_N": 256, "threads": 256}
_WIDE_DEEP: Final = _WIDE | {"block_K": 64, "num_stages": 4, "panel": 8}
_CONSUMERS: Final[dict[str, object]] = {
    "block_M": 128,
    "block_N": 256,
    "block_K": 64,
    "num_stages": 4,
    "consumer_groups": 2,
    "cluster_M": 1,
    "cluster_N": 1,
    "group_M": 8,
    "persistent": False,
    "wgmma_in_flight": 1,
    "epilogue": "tma",
    "epilogue_N": 64,
    "epilogue_buffers": 2,
}
_OPTIMIZED: Final = ("-O3", "-march=native")

_STOCK_DRAFT: Final = Draft(
    "stock_pipelined",
    "The kernel of TileLang's first example, 128x128x32 tiles and three stages: what a user gets without tuning.",
    _PIPELINED,
    _STOCK,
)
_WIDE_DRAFT: Final = Draft(
    "wide_tiles",
    "128x256 tiles over eight warps: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
    _PIPELINED,
    _WIDE,
)
_PANELS_DRAFT: Final = Draft(
    "swizzled_panels",
    "Blocks in swizzled panels eight tiles wide, so that those that run at the same time share operands in L2.",
    _PIPELINED,
    _WIDE | {"panel": 8},
)

_SM_80: Final = Ladder(
    ("matmul_bf16fp32_4096x4096x4096", "linear_bf16fp32_4096x14336x4096"),
    (
        _STOCK_DRAFT,
        _WIDE_DRAFT,
        _PANELS_DRAFT,
        Draft(
            "long_k_steps",
            "k steps of 64 instead of 32: half as many barriers, for 144 of the 163 KiB of shared memory.",
            _PIPELINED,
            _WIDE | {"panel": 8, "block_K": 64},
        ),
    ),
)
# Ada has 99 KiB of shared memory for a block.
_SM_89: Final = Ladder(
    ("matmul_fp16fp32_4096x4096x4096", "linear_bf16fp32_4096x4096x4096"),
    (
        _STOCK_DRAFT,
        Draft(
            "eight_warps",
            "Eight warps instead of four on the same tile: 64 accumulators per thread, and two blocks fit an SM.",
            _PIPELINED,
            _STOCK | {"threads": 256},
        ),
        Draft(
            "swizzled_panels",
            "Blocks in swizzled panels eight tiles wide, so that those that run at the same time share operands in L2.",
            _PIPELINED,
            _STOCK | {"threads": 256, "panel": 8},
        ),
        Draft(
            "wide_tiles",
            "128x256 tiles, one block per SM in 72 KiB: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
            _PIPELINED,
            _WIDE | {"panel": 8},
        ),
    ),
)
# The families know no tensor memory: on Blackwell data-center parts they load by TMA and multiply with mma.sync.
_SM_100A: Final = Ladder(
    ("matmul_bf16fp32_8192x8192x8192", "linear_bf16fp32_4096x14336x4096"),
    (
        _STOCK_DRAFT,
        _WIDE_DRAFT,
        _PANELS_DRAFT,
        Draft(
            "deep_ring",
            "k steps of 64 in four stages, 192 KiB on the way, since TMA has to run ahead of faster tensor cores.",
            _PIPELINED,
            _WIDE_DEEP,
        ),
        Draft(
            "tma_store",
            "Store through shared memory by TMA, which writes whole rows of the tile and takes no registers.",
            _PIPELINED,
            _WIDE_DEEP | {"epilogue": "tma"},
        ),
    ),
)
_CPU: Final = Ladder(
    ("matmul_f32fp32_256x256x256", "linear_f32fp32_128x256x512"),
    (
        Draft(
            "scalar_gemm",
            "The plain kernel, T.gemm on local tiles and no compile flags: one multiplication at a time, unoptimized.",
            _SCALAR,
            {"block_M": 64, "block_N": 64, "block_K": 32},
        ),
        Draft(
            "optimizing_compiler",
            "The scalar T.gemm with -O3 -march=native: registers instead of memory, and vectors where sums allow them.",
            _SCALAR,
            {"block_M": 64, "block_N": 64, "block_K": 32, "compile_flags": _OPTIMIZED},
        ),
        Draft(
            "register_vectors",
            "A tile of C that stays in vector registers of eight lanes while all of K passes by.",
            _REGISTERS,
            {"block_M": 6, "block_N": 16, "block_K": 256, "vector_width": 8, "compile_flags": _OPTIMIZED},
        ),
        Draft(
            "sixteen_lanes",
            "Sixteen lanes instead of eight, two vectors a row: one FMA does twice the work on 512-bit registers.",
            _REGISTERS,
            {"block_M": 8, "block_N": 32, "block_K": 256, "vector_width": 16, "compile_flags": _OPTIMIZED},
        ),
    ),
)


def _sm_90a(gpu: Gpu) -> Ladder:
    """Hopper; the persistent grid has one block for each of the GPU's SMs."""
    return Ladder(
        ("matmul_bf16fp32_4096x4096x4096", "linear_bf16fp32_4096x14336x4096"),
        (
            _STOCK_DRAFT,
            Draft(
                "wide_tiles",
                "128x256x64 tiles in swizzled panels: a quarter fewer bytes from L2 per flop than 128x128 tiles.",
                _PIPELINED,
                _WIDE_DEEP,
            ),
            Draft(
                "warp_specialized",
                "Warp specialization by hand, since T.gemm waits for its WGMMA in every k step and this keeps one "
                "batch in flight.",
                _WARP_SPECIALIZED,
                _CONSUMERS,
            ),
            Draft(
                "persistent",
                "Resident blocks walk the tiles: the producer loads the next tile while the consumers store the last "
                "one.",
                _WARP_SPECIALIZED,
                _CONSUMERS | {"group_M": 16, "persistent": True, "num_sms": gpu.sms},
            ),
        ),
    )


def _ladder(gpu: Gpu) -> Ladder | None:
    return {"sm_80": _SM_80, "sm_89": _SM_89, "sm_90a": _sm_90a(gpu), "sm_100a": _SM_100A, "c": _CPU}.get(gpu.arch)


def _draft(problem: Problem, gpu: Gpu) -> Draft:
    """A first kernel for any problem that a family takes; raises UsageError for the others."""
    reason = None
    if problem.operator not in _BASELINE_OPERATORS:
        reason = f"operator '{problem.operator}'"
    elif _ladder(gpu) is None:
        reason = f"architecture {gpu.arch}"
    elif gpu.is_cpu and {problem.input, problem.output} != {"float32"}:
        reason = f"{problem.input} on a CPU; use float32 throughout, as in f32fp32"
    elif not gpu.is_cpu and DTYPE_BYTES[problem.input] > 2:
        reason = f"{problem.input} inputs on a GPU; use bf16 or fp16"
    elif DTYPE_BYTES[problem.input] == 1 and gpu.arch == "sm_80":
        reason = f"{problem.input} on {gpu.arch}, whose tensor cores have no 8-bit floats"
    elif DTYPE_BYTES[problem.input] == 1 and problem.operator != "linear":
        reason = f"{problem.input} in operator {problem.operator}; use operator linear"
    if reason is not None:
        raise UsageError(f"no family in kernels/ takes {reason}")
    return _cpu_draft(problem) if gpu.is_cpu else _gpu_draft(problem)


def _gpu_draft(problem: Problem) -> Draft:
    """The stock kernel: it handles ragged sizes, and small ones get a smaller tile."""
    rows, columns, _ = problem.dims
    config = _STOCK | {
        "block_M": 64 if rows <= 64 else 128,
        "block_N": 64 if columns <= 64 else 128,
        "block_K": 64 // DTYPE_BYTES[problem.input],
    }
    return Draft(_STOCK_DRAFT.tag, _STOCK_DRAFT.idea, _PIPELINED, config)


def _cpu_draft(problem: Problem) -> Draft:
    """Register tiles, whose block sizes must divide N and K."""
    _, columns, depth = problem.dims
    lanes = next(width for width in (16, 8, 4, 1) if columns % width == 0)
    config: dict[str, object] = {
        "block_M": 8,
        "block_N": 2 * lanes if columns % (2 * lanes) == 0 else lanes,
        "block_K": next(size for size in range(min(depth, 512), 0, -1) if depth % size == 0),
        "vector_width": lanes,
        "compile_flags": _OPTIMIZED,
    }
    return Draft("register_tiles", "A tile of C in vector registers while all of K passes by.", _REGISTERS, config)
