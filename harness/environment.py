"""The environment of a record: versions, device, and the hashes that say whether a result still holds."""

import ast
import hashlib
import os
import platform
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness.gpus import Gpu, key_of
from harness.nvml import Device
from harness.records import Environment

JUDGE: Final = ("harness/judge", "harness/operators", "harness/plausible.py", "harness/problem.py", "baselines")
FAMILIES: Final = ("kernels", "baselines")
IMAGE_VARIABLE: Final = "TILEBENCH_IMAGE"


def describe(root: Path, gpu: Gpu, device: Device | None) -> Environment:
    """The environment of a run on this machine; imports neither torch nor TileLang."""
    return Environment(
        gpu=gpu.key,
        device=device.name if device else _cpu_name(),
        device_uuid=device.uuid if device else "",
        driver=device.driver if device else "none",
        python=platform.python_version(),
        torch=_version("torch"),
        tilelang=_version("tilelang"),
        tvm_ffi=_version("apache-tvm-ffi"),
        judge_sha256=judge_sha256(root),
        image=image(),
        forced=device is not None and key_of(device.name) != gpu.key,
    )


def image() -> str | None:
    """The container's image: its ID where that was told, else the hash of the list of its contents; None outside."""
    named = os.environ.get(IMAGE_VARIABLE)
    if named and named.startswith("/"):
        return f"contents:{source_sha256(Path(named))}"
    return named or None


@cache
def judge_sha256(root: Path) -> str:
    """Hash of all that decides a verdict or a figure; a change of it makes older results stale."""
    files = []
    for part in JUDGE:
        path = root / part
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return _digest(root, files)


def source_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def families_sha256(root: Path, path: Path) -> str:
    """Hash of the modules under kernels/ and baselines/ that a file imports, directly or through another."""
    seen: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        for module in _local_imports(root, waiting.pop()):
            if module not in seen:
                seen[module] = None
                waiting.append(module)
    return _digest(root, sorted(seen))


def _local_imports(root: Path, path: Path) -> list[Path]:
    try:
        source = path.read_bytes()
    except OSError:
        return []
    names = _imports(source, path.parent.relative_to(root).parts if path.is_relative_to(root) else None)
    modules = [root.joinpath(*name.split(".")) for name in names]
    files = (file for module in modules for file in (module / "__init__.py", module.with_suffix(".py")))
    return [file for file in files if file.is_file()]


@lru_cache(maxsize=1024)  # one family is imported by hundreds of iterations
def _imports(source: bytes, package: tuple[str, ...] | None) -> tuple[str, ...]:
    """What a module imports of FAMILIES, by dotted names; ``package`` is where it lies, None outside."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.ImportFrom) and package is not None:
            base = ".".join((*package[: len(package) - node.level + 1], *([node.module] if node.module else [])))
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    paths = [name.split(".") for name in names]
    # importing a.b.c runs a/__init__.py and a/b/__init__.py too
    prefixes = (".".join(path[:depth]) for path in paths if path[0] in FAMILIES for depth in range(1, len(path) + 1))
    return tuple(dict.fromkeys(prefixes))


def _digest(root: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@cache
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
