"""The contestant's side of a build: imports iterations and compiles them for a GPU that need not be here.

Runs under either interpreter as ``python -m harness.extras.versus.worker REPOSITORY [CODES]``. It needs nothing but
TileLang, of any release from 0.1.8 on. Each order is built in a forked child.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from harness.errors import compiler_complaint
from harness.extras.forked import serve
from harness.judge.facts.problem import parse_shape_key
from harness.judge.facts.program import Program
from harness.judge.steady_addresses import SEED, hold_addresses, in_memory_of_its_own
from harness.operators import adopt

HEADERS: Final = (".h", ".hpp", ".cuh", ".inl")
PLACED: Final = re.compile(
    r"^ *void\* (?P<name>\w+) = \(\(void\*\)\(\(char\*\)buf_dyn_shmem \+ (?P<place>\d+)\)\);\n", re.MULTILINE
)
KERNEL: Final = re.compile(r'^(?=extern "C" __global__)', re.MULTILINE)
USED: Final = re.compile(r"(?<!void\* )\b[A-Za-z_]\w*")  # a name, but where it is placed
ALIGNMENT: Final = 1024  # bytes, of a tile that TMA swizzles
LAUNCH: Final = ("thread_extent", "cluster_dims", "dyn_shared_memory_buf")


class HeardCompiler(subprocess.Popen):  # type: ignore[type-arg]
    """Keeps what nvcc says, which TileLang prints, logs or drops, as the release may be.

    One command on one source with the same headers makes one machine code: it is kept in ``folder``, and taken from
    there.
    """

    said = ""
    folder: Path | None = None
    package = Path()
    headers = ""

    def __init__(self, command: Any, *words: Any, **more: Any) -> None:
        self.out, self.kept = self._places(command)
        if self.kept is not None and self.kept.is_dir():
            shutil.copy(self.kept / "code", self.out)
            command = ["cat", str(self.kept / "said")]
        super().__init__(command, *words, **more)

    def communicate(self, *words: Any, **more: Any) -> Any:
        answer = super().communicate(*words, **more)
        HeardCompiler.said = (answer[0] or b"").decode(errors="replace")
        if self.kept is not None and self.returncode == 0 and not self.kept.is_dir():
            new = Path(tempfile.mkdtemp(dir=self.kept.parent))
            shutil.copy(self.out, new / "code")
            (new / "said").write_bytes(answer[0])
            with suppress(OSError):  # another process has kept it meanwhile
                new.rename(self.kept)
            shutil.rmtree(new, ignore_errors=True)
        return answer

    def _places(self, command: Any) -> tuple[str, Path | None]:
        """Where nvcc writes, and the folder of what it makes; None where nothing is kept, or it is no compilation."""
        if self.folder is None or not isinstance(command, list) or not str(command[-1]).endswith(".cu"):
            return "", None
        source, out = Path(command[-1]), command[command.index("-o") + 1]
        words = [word.replace(str(self.package), "") for word in command[:-1] if word != out]
        flags = [os.environ.get(f"NVCC_{name}_FLAGS") for name in ("PREPEND", "APPEND")]
        nvcc = Path(shutil.which(command[0]) or command[0]).stat()
        key = repr((words, flags, nvcc.st_size, nvcc.st_mtime_ns, self.headers, source.read_text()))
        return out, self.folder / hashlib.sha256(key.encode()).hexdigest()


def main() -> None:
    start_with_steady_addresses()
    import tilelang
    from tilelang.contrib import nvcc

    adopt(Path(sys.argv[1]))
    HeardCompiler.folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    HeardCompiler.package = Path(tilelang.__file__).parent
    HeardCompiler.headers = headers_sha256(HeardCompiler.package)
    tilelang.disable_cache()
    nvcc.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": HeardCompiler})
    serve(_carry_out)


def start_with_steady_addresses() -> None:
    """Start anew if the addresses or hashes of this process are random."""
    if hold_addresses() is not None or os.environ.get(SEED) != "0":
        words = [sys.executable, "-m", "harness.extras.versus.worker", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, SEED: "0"})


def placed_by_use(source: str) -> str:
    """A generated source with each kernel's shared buffers of one name in the order of their use.

    TileLang numbers and places them by their addresses, so one kernel has several texts.
    """
    return "".join(map(_kernel_placed_by_use, KERNEL.split(source)))


def _kernel_placed_by_use(source: str) -> str:
    places = {each["name"]: int(each["place"]) for each in PLACED.finditer(source)}
    used, renamed, moved = dict.fromkeys(USED.findall(source)), dict[str, str](), dict[str, int]()
    for _, group in groupby(sorted(places, key=_unnumbered), _unnumbered):
        alike = sorted(group, key=places.__getitem__)
        by_use = [name for name in used if name in alike]
        renamed |= zip(by_use, alike, strict=False)
        moved |= zip(alike, _places_by_use(places, alike, by_use), strict=False)
    named = USED.sub(lambda word: renamed.get(word[0], word[0]), source)
    return PLACED.sub(lambda each: each[0].replace(f"+ {each['place']})", f"+ {moved[each['name']]})"), named)


def _places_by_use(places: dict[str, int], alike: list[str], by_use: list[str]) -> list[int]:
    """Where buffers lie in another order: where they lay, unless all sizes are known and keep the alignment."""
    ordered = sorted(places, key=places.__getitem__)
    sizes = {name: places[after] - places[name] for name, after in pairwise(ordered)}  # but the last one's
    first = ordered.index(alike[0])
    together = ordered[first : first + len(alike)] == alike and len(by_use) == len(alike)
    if not together or any(name not in sizes or sizes[name] % ALIGNMENT for name in alike):
        return [places[name] for name in alike]
    return list(accumulate((sizes[name] for name in by_use[:-1]), initial=places[alike[0]]))


def _unnumbered(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def headers_sha256(package: Path) -> str:
    """Hash of all headers that TileLang brings."""
    digest = hashlib.sha256()
    for each in sorted(each for each in package.rglob("*") if each.suffix in HEADERS):
        digest.update(f"{each.relative_to(package)} {each.stat().st_size}\0".encode())
        digest.update(each.read_bytes())
    return digest.hexdigest()


def _carry_out(order: dict[str, Any]) -> dict[str, Any]:
    return in_memory_of_its_own(lambda: _answer(order))


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    """Build. A later sample finds some memory taken, so that its addresses are others."""
    began, taken = time.monotonic(), [bytearray(600 + 16 * each) for each in range(7 * (order["sample"] - 1))]
    try:
        answer = _built(order)
    except BaseException as error:
        answer = {"reason": complaint(error), "transient": isinstance(error, MemoryError | OSError)}
    del taken
    return {**answer, "seconds": round(time.monotonic() - began, 3)}


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
        code = placed_by_use(code)
        listed = [options] if isinstance(options, str) else list(options or [])
        binary = original(code, target_format, arch, [*listed, "--ptxas-options=--verbose"], **more)
        said = (line for line in HeardCompiler.said.splitlines() if line.startswith("ptxas") or "bytes stack" in line)
        made.append({"source": code, "cubin": bytes(binary).hex(), "log": "\n".join(said)})
        return binary

    nvcc.compile_cuda = compile_cuda
    target = tvm.target.Target(_target(tvm, order["arch"]))
    with target:
        kernels = _kernels(order, tilelang, target)
    if not made:
        raise RuntimeError(
            "build() gives no kernel that nvcc has compiled: it compiles when it is called, or calls torch"
        )
    last = made[-len(kernels) :]
    modules = [
        {**each, "shared": _shared(kernel), "launch": _launch(kernel, each["source"]), "extents": _extents(kernel)}
        for each, kernel in zip(last, kernels, strict=True)
    ]
    return {"modules": modules}


def _kernels(order: dict[str, Any], tilelang: Any, target: Any) -> list[Any]:
    """What an order's iteration compiles, or a function of another tree."""
    if "function" not in order:
        return [_compiled(tilelang, _function(order["path"]), order["shape_key"], target)]
    from harness.extras import stand_in

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


def _compiled(tilelang: Any, build: Any, shape_key: str, target: Any) -> Any:
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
    found = {}
    for attributes in _device_functions(kernel):
        with suppress(KeyError, TypeError, ValueError):
            size = int(attributes["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attributes else 0
            found[str(attributes["global_symbol"])] = size
    return found


def _launch(kernel: Any, source: str) -> str:
    """How the device functions are launched and what they take, as far as this TileLang says."""
    found = []
    for attributes in _device_functions(kernel):
        with suppress(KeyError, TypeError, AttributeError):
            said = {name: str(attributes[name]) for name in LAUNCH if name in attributes}
            found.append((str(attributes["global_symbol"]), sorted(said.items())))
    return repr((sorted(found), taken(kernel, source)))


def _extents(kernel: Any) -> dict[str, int]:
    """Grid, block and dynamic shared memory of each device function; what only the launch knows is left out."""
    found = {f"{name} shared": size for name, size in _shared(kernel).items()}
    for attributes in _device_functions(kernel):
        for axis, extent in attributes["thread_extent"].items() if "thread_extent" in attributes else ():
            with suppress(TypeError, ValueError):
                found[f"{attributes['global_symbol']} {axis}"] = int(extent)
    return found


def taken(kernel: Any, source: str) -> list[str]:
    """What a caller gives, in its order, without the tensors that no device function takes."""
    given = list(map(str, getattr(getattr(kernel, "artifact", None), "params", ())))
    function = getattr(kernel, "prim_func", None)
    names = [getattr(function.buffer_map.get(each), "name", "") for each in function.params] if function else []
    if len(names) != len(given):
        return given
    return [each for name, each in zip(names, given, strict=True) if re.search(rf"\b{name}(_desc)?\b", source)]


def _device_functions(kernel: Any) -> list[Any]:
    """What TileLang's lowering says of each device function, by the attribute's name."""
    device = getattr(getattr(kernel, "artifact", None), "device_mod", None)
    return [function.attrs for function in device.functions.values()] if device is not None else []


if __name__ == "__main__":
    main()
