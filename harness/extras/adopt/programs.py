"""Kernels as ``tilebench adopt`` has written them down."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
from tilelang import tvm
from tilelang.layout import Layout

from harness.iteration import Program, Workspace


def read(
    file: str, sha256: str, pass_configs: dict[str, Any], flags: tuple[str, ...], workspaces: tuple[Workspace, ...] = ()
) -> Program:
    """The program of a file beside this one; raises ValueError if the file is another than was written."""
    text = (Path(__file__).parent / "adopted" / file).read_bytes()
    if hashlib.sha256(text).hexdigest() != sha256:
        raise ValueError(f"{file} is not what adopt wrote; adopt the example again")
    return Program(_laid_out(tvm.ir.load_json(text.decode())), pass_configs, flags, workspaces)


def _laid_out(kernel: Any) -> Any:
    """The kernel with its layouts made anew: TileLang knows a layout's variables by identity, which no file keeps."""

    def block(node: Any) -> Any:
        if "layout_map" not in node.annotations:
            return node
        found = {buffer: _anew(layout) for buffer, layout in node.annotations["layout_map"].items()}
        parts = [node.iter_vars, node.reads, node.writes, node.name_hint, node.body, node.init, node.alloc_buffers]
        return tvm.tirx.SBlock(*parts, node.match_buffers, {**dict(node.annotations.items()), "layout_map": found})

    return kernel.with_body(tvm.tirx.stmt_functor.ir_transform(kernel.body, None, block, ["tirx.SBlock"]))


def _anew(layout: Any) -> Any:
    if type(layout) is not Layout:
        return layout

    def forward(*given: Any) -> list[Any]:
        named = dict(zip(("_i", "_j", "_k", "_l", "_m", "_n"), given, strict=False))
        used: dict[Any, Any] = {}

        def note(node: Any) -> None:
            if isinstance(node, tvm.tirx.Var):
                used[node] = named[node.name]

        for index in layout.forward_index:
            tvm.tirx.stmt_functor.post_order_visit(index, note)
        return [tvm.tirx.stmt_functor.substitute(index, used) for index in layout.forward_index]

    return Layout([int(size) for size in layout.input_size], forward)


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
