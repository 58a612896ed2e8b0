"""The contestant's side of a build: imports iterations and compiles them for a GPU that need not be here.

Runs under either interpreter as ``python -m harness.extras.versus.worker REPOSITORY``. It needs nothing but TileLang,
of any release from 0.1.8 on. Each line on stdin is an order in JSON, and is built in a forked child. Its answer is a
file; the order's number on stdout says that the child has ended.
"""

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.errors import compiler_complaint
from harness.judge.facts.problem import parse_shape_key
from harness.judge.facts.program import Program
from harness.operators import adopt


class KnownSource(BaseException):
    """The generated source is one that was compiled before: its machine code is known."""


class HeardCompiler(subprocess.Popen):  # type: ignore[type-arg]
    """Keeps what nvcc says, which TileLang prints, logs or drops, as the release may be."""

    said = ""

    def communicate(self, *words: Any, **more: Any) -> Any:
        answer = super().communicate(*words, **more)
        HeardCompiler.said = (answer[0] or b"").decode(errors="replace")
        return answer


def main() -> None:
    import tilelang
    from tilelang.contrib import nvcc

    adopt(Path(sys.argv[1]))
    tilelang.disable_cache()
    nvcc.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": HeardCompiler})
    answers = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _serve(order)
        try:
            os.waitpid(child, 0)
        finally:
            _end(child)
        print(order["number"], file=answers, flush=True)


def _end(child: int) -> None:
    """End a child's compilers too."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _serve(order: dict[str, Any]) -> None:
    """In the child: build, write the answer, and leave. One that is late ends by the alarm, without an answer."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(order["deadline_s"])
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    began = time.monotonic()
    try:
        answer = _built(order)
    except BaseException as error:
        answer = {"error": complaint(error)}
    answer["seconds"] = round(time.monotonic() - began, 3)
    out = Path(order["out"])
    out.with_suffix(".part").write_text(json.dumps(answer))
    out.with_suffix(".part").replace(out)
    os._exit(0)


def complaint(error: BaseException) -> str:
    """The first line of an error; of a failed compiler, its first complaint."""
    said = compiler_complaint(f"{HeardCompiler.said}\n{error}") if isinstance(error, RuntimeError) else None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return said or f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def _built(order: dict[str, Any]) -> dict[str, Any]:
    import tilelang
    from tilelang import tvm
    from tilelang.contrib import nvcc

    made: list[dict[str, Any]] = []
    original = nvcc.compile_cuda

    def compile_cuda(code: str, target_format: str = "ptx", arch: Any = None, options: Any = None, **more: Any) -> Any:
        if hashlib.sha256(code.encode()).hexdigest() in order["known"]:
            made.append({"source": code})
            raise KnownSource
        listed = [options] if isinstance(options, str) else list(options or [])
        binary = original(code, target_format, arch, [*listed, "--ptxas-options=--verbose"], **more)
        said = (line for line in HeardCompiler.said.splitlines() if line.startswith("ptxas") or "bytes stack" in line)
        made.append({"source": code, "cubin": bytes(binary).hex(), "log": "\n".join(said)})
        return binary

    nvcc.compile_cuda = compile_cuda
    target = tvm.target.Target(_target(tvm, order["arch"]))
    try:
        with target:
            kernels = _kernels(order, tilelang, tvm, target)
    except KnownSource:
        return {"modules": made[-1:]}
    except Exception:
        if made and "cubin" not in made[-1]:  # TileLang has made another error of it
            return {"modules": made[-1:]}
        raise
    if not made:
        raise RuntimeError(
            "build() gives no kernel that nvcc has compiled: it compiles when it is called, or calls torch"
        )
    last = made[-len(kernels) :]
    return {"modules": [{**each, "shared": _shared(kernel)} for each, kernel in zip(last, kernels, strict=True)]}


def _kernels(order: dict[str, Any], tilelang: Any, tvm: Any, target: Any) -> list[Any]:
    """What an order's iteration compiles, or a function of another tree."""
    if "function" not in order:
        return [_compiled(tilelang, tvm, _function(order["path"]), order["shape_key"], target)]
    from harness.extras.versus import stand_in

    return stand_in.call(Path(order["path"]), order["function"], Path(order["root"]), order["arch"], order["sms"])


def _target(tvm: Any, arch: str) -> Any:
    """Older releases take a target as words only."""
    try:
        tvm.target.Target({"kind": "cuda", "arch": arch})
    except Exception:
        return f"cuda -arch={arch}"
    return {"kind": "cuda", "arch": arch}


def _function(path: str) -> Any:
    """The ``build`` of an iteration."""
    spec = importlib.util.spec_from_file_location("iteration", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["iteration"] = module
    spec.loader.exec_module(module)
    return module.build


def _compiled(tilelang: Any, tvm: Any, build: Any, shape_key: str, target: Any) -> Any:
    """The compiled kernel, or None where ``build`` gives any other function."""
    problem = parse_shape_key(shape_key)
    built = build(problem)
    if type(built).__name__ == "JITImpl":
        import torch

        tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape, dtype in problem.tensors]
        wanted = sum(each.default is each.empty for each in built.signature.parameters.values())
        flags = built.compile_flags or ()
        flags = (flags,) if isinstance(flags, str) else tuple(flags)
        built = Program(built.get_tir(*tensors[:wanted]), built.pass_configs or {}, flags)
    if type(built).__name__ == "PrimFunc":
        built = Program(built)
    if not isinstance(built, Program):
        return built if hasattr(built, "get_kernel_source") else None
    return tilelang.compile(
        built.prim_func,
        out_idx=None,
        target=target,
        pass_configs=dict(built.pass_configs) or None,
        compile_flags=list(built.compile_flags) or None,
    )


def _shared(kernel: Any) -> dict[str, int]:
    """Dynamic shared memory in bytes by device function; a size that is known at the launch only is left out."""
    device, found = getattr(getattr(kernel, "artifact", None), "device_mod", None), {}
    for function in device.functions.values() if device is not None else ():
        attributes = function.attrs
        with suppress(KeyError, TypeError, ValueError):
            size = int(attributes["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attributes else 0
            found[str(attributes["global_symbol"])] = size
    return found


if __name__ == "__main__":
    main()
