"""Kernels as ``tilebench adopt`` has written them down."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
from tilelang import tvm

from harness.iteration import Program, Workspace


def read(
    file: str, sha256: str, pass_configs: dict[str, Any], flags: tuple[str, ...], workspaces: tuple[Workspace, ...] = ()
) -> Program:
    """The program of a file beside this one; raises ValueError if the file is another than was written."""
    text = (Path(__file__).parent / "adopted" / file).read_bytes()
    if hashlib.sha256(text).hexdigest() != sha256:
        raise ValueError(f"{file} is not what adopt wrote; adopt the example again")
    return Program(tvm.ir.load_json(text.decode()), pass_configs, flags, workspaces)


def compiled(*words: Any) -> Callable[..., None]:
    """The kernel of a file, compiled for the current target; all tensors are given."""
    program = read(*words)
    kernel: Callable[..., None] = tilelang.compile(
        program.prim_func,
        out_idx=None,
        target=tvm.target.Target.current(),
        pass_configs=dict(program.pass_configs) or None,
        compile_flags=list(program.compile_flags) or None,
    )
    return kernel
