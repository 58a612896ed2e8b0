"""The child that adopts examples: ``python -m harness.extras.adopt.worker REPOSITORY``.

Each order is carried out in a forked child, since a script may leave anything behind.
"""

import importlib
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import tilelang
import torch

from harness.errors import described
from harness.extras.adopt.exactness import OutputSize, sizes
from harness.extras.adopt.example import found_in
from harness.extras.adopt.files import ExampleFiles
from harness.extras.adopt.launch import TapedLaunch
from harness.extras.adopt.recording import Recording, record
from harness.extras.adopt.tape import NotAdopted, held_dtype
from harness.extras.forked import serve
from harness.judge.facts.problem import parse_shape_key
from harness.machine.files import put
from harness.machine.repository import ADOPTED
from harness.operators import OPERATORS

PROGRAMS: Final = Path("kernels", "adopted")
SCRIPT_BYTES: Final = 18 << 30  # of memory
# A reference is computed here twice, for the size of its outputs and what the script's own precision costs.
MEMORY_BYTES: Final = 12 << 30
MOST_BYTES: Final = 64 << 30  # of all that it makes
MOST_FLOPS: Final = 1e13


def _carry_out(root: Path, order: dict[str, Any]) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_DATA, (SCRIPT_BYTES, SCRIPT_BYTES))
    try:
        recording = record(Path(order["path"]), order["function"], order["arch"], order["sms"])
        return (_programs if order["programs"] else _adopted)(recording, order, root)
    except NotAdopted as refused:
        return {"reason": str(refused)}
    except BaseException as error:
        return {"reason": described(error)}


def _programs(recording: Recording, order: dict[str, Any], root: Path) -> dict[str, Any]:
    """Write the programs of this TileLang alone; says them by the launch's number."""
    files = ExampleFiles(order["name"], order["source"], found_in(recording))
    files.kernel(root / PROGRAMS)
    return {"programs": files.written, "tilelang": tilelang.__version__}


def _adopted(recording: Recording, order: dict[str, Any], root: Path) -> dict[str, Any]:
    """Write the files of a recording's example; says its shape key and what is known of it."""
    example = found_in(recording)
    files = ExampleFiles(order["name"], order["source"], example, order["others"])
    kernel = files.kernel(root / PROGRAMS)
    flops = sum(each.flops for each in example.reference)
    if example.reference_bytes > MOST_BYTES or flops > MOST_FLOPS:
        size = f"{example.reference_bytes >> 30} GiB and {flops / 1e12:.1f} TFLOP"
        raise NotAdopted(f"its reference takes {size}, too much for a CPU")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    found, wide = _sizes(files, root)
    put(root / "operators" / f"{files.name}.py", files.operator(found, wide=wide).encode())
    put(root / "baselines" / f"{files.baseline_name}.py", files.baseline().encode())
    put(root / "kernels" / f"{files.name}.py", kernel.encode())
    return {
        "shape_key": files.shape_key,
        "launches": sum(isinstance(each.function, TapedLaunch) for each in example.calls),
        "inputs": len(example.inputs),
        "outputs": len(example.outputs),
        "fixed": len(example.fixed),
        "wide": wide,
        "own_limits": sum(each.own for each in found),
    }


def _sizes(files: ExampleFiles, root: Path) -> tuple[list[OutputSize], bool]:
    """The size of each output by the reference itself, in a wide precision where its calls take one."""
    ADOPTED.adopt(root, {})
    path, module = root / "operators" / f"{files.name}.py", f"harness.operators.{files.name}"
    failed: Exception | None = None
    for wide in (True, False):
        put(path, files.operator([OutputSize()] * len(files.example.outputs), wide=wide).encode())
        sys.modules.pop(module, None)
        importlib.invalidate_caches()
        try:
            written = importlib.import_module(module)
            OPERATORS[files.name] = written.OPERATOR
            dice = torch.Generator().manual_seed(0)
            drawn = [
                each.fill.draw(place.size, held_dtype(place), {}, dice)
                for each, place in zip(written.OPERATOR.inputs.values(), files.example.inputs, strict=True)
            ]
            given = [each.float() if wide and each.is_floating_point() else each for each in drawn]
            right = written.OPERATOR.reference(*given)
            own = written.computed(*drawn) if wide else right
            return sizes(parse_shape_key(files.shape_key), files.example.roundings, right, own), wide
        except NotAdopted:
            path.unlink()
            raise
        except Exception as error:  # another precision may do
            failed = error
            path.unlink()
    assert failed is not None
    raise NotAdopted(f"its reference cannot be repeated: {described(failed)}")


if __name__ == "__main__":
    serve(partial(_carry_out, Path(sys.argv[1])))  # before a script has arguments of its own
