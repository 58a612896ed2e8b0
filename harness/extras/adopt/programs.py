"""Kernels as ``tilebench adopt`` has written them down."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tilelang
from tilelang import tvm
from tilelang.layout import Layout

from harness.iteration import Program, Workspace

Saved = tuple[str, str, dict[str, Any], tuple[str, ...]]  # file, its SHA-256, pass configs, flags of the compiler
TIR: Final = getattr(tvm, "tirx", None) or tvm.tir  # older TileLangs have the latter
BLOCK: Final = getattr(TIR, "SBlock", None) or TIR.Block


def read(programs: dict[str, Saved], workspaces: tuple[Workspace, ...] = ()) -> Program:
    """The program that this TileLang wrote, or else the last; raises ValueError if its file has changed."""
    own = list(programs)[-1]
    file, sha256, pass_configs, flags = programs.get(tilelang.__version__, programs[own])
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
        return BLOCK(*parts, node.match_buffers, {**dict(node.annotations.items()), "layout_map": found})

    kind = f"{TIR.__name__.rpartition('.')[2]}.{BLOCK.__name__}"
    return kernel.with_body(TIR.stmt_functor.ir_transform(kernel.body, None, block, [kind]))


def _anew(layout: Any) -> Any:
    if type(layout) is not Layout:
        return layout

    def forward(*given: Any) -> list[Any]:
        named = dict(zip(("_i", "_j", "_k", "_l", "_m", "_n"), given, strict=False))
        used: dict[Any, Any] = {}

        def note(node: Any) -> None:
            if isinstance(node, TIR.Var):
                used[node] = named[node.name]

        for index in layout.forward_index:
            TIR.stmt_functor.post_order_visit(index, note)
        return [TIR.stmt_functor.substitute(index, used) for index in layout.forward_index]

    return Layout([int(size) for size in layout.input_size], forward)


def compiled(programs: dict[str, Saved]) -> Callable[..., None]:
    """The kernel of a file, compiled for the current target; all tensors are given."""
    program = read(programs)
    kernel: Callable[..., None] = tilelang.compile(
        program.prim_func,
        out_idx=None,
        target=tvm.target.Target.current(),
        pass_configs=dict(program.pass_configs) or None,
        compile_flags=list(program.compile_flags) or None,
    )
    return kernel
