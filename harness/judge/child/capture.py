"""Capture: what nvcc was given and what it gave, taken from TileLang's own compilation while it happens.

Runs in the contestant. TileLang 0.1.15 makes the cubin that it will launch with ``contrib.nvcc.compile_cuda`` and drops
what the compiler says; the wrapper asks for ptxas's figures too, which changes no instruction, and keeps both.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_tb
from types import FrameType
from typing import Any, Final

from harness.errors import compiler_complaint
from harness.judge.facts.compilation import MOST_BYTES, Compilation, Launch

PTXAS_VERBOSE: Final = "--ptxas-options=--verbose"
MOST_HEARD: Final = 2000  # characters of a failed compiler's output, at its end
_AXES: Final = ("x", "y", "z")
# Where a kernel is traced, lowered and compiled: the functions of TileLang that a first call goes through.
_COMPILING: Final = (
    ("tilelang/jit/__init__.py", "compile"),
    ("tilelang/jit/__init__.py", "get_tir"),
    ("tilelang/language/eager/builder.py", "parse_args"),
)


class CompilerError(RuntimeError):
    """nvcc or ptxas refused the generated source; the message is its first complaint."""


@dataclass(frozen=True, slots=True)
class _Made:
    source: str
    cubin: bytes
    log: str


Captured = list[_Made]


@contextmanager
def capturing() -> Iterator[Captured]:
    """All that nvcc makes inside the block, in order."""
    from tilelang.contrib import nvcc

    made: Captured = []
    original = nvcc.compile_cuda

    def compile_cuda(
        code: str, target_format: str = "ptx", arch: Any = None, options: Any = None, *rest: Any, **more: Any
    ) -> Any:
        more.pop("verbose", None)
        heard = _Listener()
        with heard.listening(getattr(nvcc, "logger", logging.getLogger("tilelang"))):  # TileLang 0.1.9 prints instead
            try:
                binary = original(
                    code, target_format, arch, [*_listed(options), PTXAS_VERBOSE], *rest[:1], verbose=True, **more
                )
            except RuntimeError as error:
                refused = CompilerError(compiler_complaint(heard.text) or str(error).splitlines()[-1])
                refused.add_note(heard.text[-MOST_HEARD:])
                raise refused from None
        made.append(_Made(str(code), bytes(binary), _of_ptxas(heard.text)))
        return binary

    nvcc.compile_cuda = compile_cuda
    try:
        yield made
    finally:
        nvcc.compile_cuda = original


def tensor_ir() -> Any:
    """TVM's tensor IR, by its name in this TileLang; before 0.1.10 it was another."""
    from tilelang import tvm

    return getattr(tvm, "tirx", None) or tvm.tir


def compilation(kernel: Any, source: str, made: Captured, sizes: Mapping[str, int]) -> Compilation | None:
    """The part of what was captured that belongs to a JITKernel of this source, with the geometry of its launches.

    ``sizes`` are those of symbolic dimensions, by name.
    """
    mine = next((each for each in reversed(made) if each.source == source), None)
    device = getattr(kernel.artifact, "device_mod", None)
    launches = (_launch(each, sizes) for each in device.functions.values()) if device is not None else ()
    cubin = mine.cubin if mine is not None and len(mine.cubin) <= MOST_BYTES else None
    return Compilation(source, tuple(filter(None, launches)), cubin, mine.log[-MOST_BYTES // 8 :] if mine else "")


def was_compiling(error: BaseException) -> bool:
    """Whether an error came out of TileLang's tracing or compiling, as of a kernel that compiles when first called."""
    return any(is_compiling(frame) for frame, _ in walk_tb(error.__traceback__))


def is_compiling(frame: FrameType) -> bool:
    code = frame.f_code
    return any(code.co_filename.endswith(file) and code.co_name == name for file, name in _COMPILING)


def _launch(function: Any, sizes: Mapping[str, int]) -> Launch | None:
    """A device function's launch, from the attributes that TileLang's lowering leaves on it."""
    attributes = function.attrs
    try:
        extent = {str(axis): _size(size, sizes) for axis, size in dict(attributes["thread_extent"]).items()}
        shared = int(attributes["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attributes else 0
        cluster = tuple(int(size) for size in attributes["cluster_dims"]) if "cluster_dims" in attributes else ()
        return Launch(
            name=str(attributes["global_symbol"]),
            grid=_dimensions([extent.get(f"blockIdx.{axis}", 1) for axis in _AXES]),
            block=_dimensions([extent.get(f"threadIdx.{axis}", 1) for axis in _AXES]),
            cluster=_dimensions([*cluster, 1, 1, 1]),
            dynamic_shared_bytes=shared,
        )
    except (KeyError, TypeError, ValueError):  # sizes that are known at the launch only
        return None


def _size(extent: Any, sizes: Mapping[str, int]) -> int:
    """An extent at these sizes of its symbols. Raises KeyError or TypeError where they do not tell it."""
    from tilelang import tvm

    ir, known = tensor_ir(), dict[Any, Any]()

    def visit(node: Any) -> None:
        if isinstance(node, ir.Var):
            known[node] = ir.const(sizes[str(node)], node.dtype)

    ir.stmt_functor.post_order_visit(extent, visit)
    return int(tvm.arith.Analyzer().simplify(ir.stmt_functor.substitute(extent, known)) if known else extent)


def _dimensions(sizes: list[int]) -> tuple[int, int, int]:
    return sizes[0], sizes[1], sizes[2]


def _of_ptxas(log: str) -> str:
    """nvcc's own warnings, of TileLang's headers, are thousands of lines."""
    return "".join(line + "\n" for line in log.splitlines() if line.startswith("ptxas") or "bytes stack frame" in line)


def _listed(options: Any) -> list[str]:
    return [options] if isinstance(options, str) else list(options or [])


class _Listener(logging.Handler):
    """Hears what TileLang logs of the compiler's output, and nothing of it goes further."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"

    @contextmanager
    def listening(self, logger: logging.Logger) -> Iterator[None]:
        level, propagate, handlers = logger.level, logger.propagate, logger.handlers
        logger.handlers, logger.propagate = [self], False
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
