"""The child that adopts examples: ``python -m harness.extras.adopt.worker REPOSITORY``.

Each line on stdin is an order in JSON, and is carried out in a forked child, since a script may leave anything behind.
The answer is a line of JSON on stdout.
"""

import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Final

import tilelang
import torch

from harness.errors import described
from harness.extras.adopt.example import NotAdopted, found_in
from harness.extras.adopt.files import ExampleFiles, deviation
from harness.extras.adopt.launch import TapedLaunch
from harness.extras.adopt.recording import Recording, record
from harness.extras.adopt.tape import held_dtype
from harness.extras.adopt.text import NotSaid
from harness.machine.files import put
from harness.machine.repository import ADOPTED

PROGRAMS: Final = Path("kernels", "adopted")
SCRIPT_BYTES: Final = 18 << 30  # of memory
# A reference is computed here once, for the size of its outputs.
MEMORY_BYTES: Final = 12 << 30
MOST_BYTES: Final = 64 << 30  # of all that it makes
MOST_FLOPS: Final = 1e13


def main() -> None:
    root = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _serve(order, root, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        status = os.waitpid(child, 0)[1]
        print(text or json.dumps({"reason": _ended(status, order["deadline_s"])}), file=answers, flush=True)


def _ended(status: int, deadline_s: int) -> str:
    number = os.WTERMSIG(status)
    return f"it runs over {deadline_s} s" if number == signal.SIGALRM else f"it ends by {signal.Signals(number).name}"


def _serve(order: dict[str, Any], root: Path, writer: int) -> None:
    """In the child: adopt, write the answer, and leave."""
    signal.alarm(order["deadline_s"])
    resource.setrlimit(resource.RLIMIT_DATA, (SCRIPT_BYTES, SCRIPT_BYTES))
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        recording = record(Path(order["path"]), order["function"], order["arch"], order["sms"])
        answer = (_programs if order["programs"] else _adopted)(recording, order, root)
    except (NotAdopted, NotSaid) as refused:
        answer = {"reason": str(refused)}
    except BaseException as error:
        answer = {"reason": described(error)}
    os.write(writer, json.dumps(answer).encode())
    os._exit(0)


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
    scales, wide = _scales(files, root)
    put(root / "operators" / f"{files.name}.py", files.operator(scales, wide=wide).encode())
    put(root / "baselines" / f"{files.baseline_name}.py", files.baseline().encode())
    put(root / "kernels" / f"{files.name}.py", kernel.encode())
    return {
        "shape_key": files.shape_key,
        "launches": sum(isinstance(each.function, TapedLaunch) for each in example.calls),
        "inputs": len(example.inputs),
        "outputs": len(example.outputs),
        "fixed": len(example.fixed),
        "wide": wide,
    }


def _scales(files: ExampleFiles, root: Path) -> tuple[list[tuple[float, bool]], bool]:
    """The size of each output by the reference itself, in a wide precision where its calls take one."""
    ADOPTED.adopt(root, {})
    guess = [(1.0, False)] * len(files.example.outputs)
    path = root / "operators" / f"{files.name}.py"
    failed: Exception | None = None
    for wide in (True, False):
        put(path, files.operator(guess, wide=wide).encode())
        sys.modules.pop(f"harness.operators.{files.name}", None)
        importlib.invalidate_caches()
        try:
            operator = importlib.import_module(f"harness.operators.{files.name}").OPERATOR
            dice = torch.Generator().manual_seed(0)
            drawn = [
                each.fill.draw(place.size, held_dtype(place), {}, dice)
                for each, place in zip(operator.inputs.values(), files.example.inputs, strict=True)
            ]
            given = [each.float() if wide and each.is_floating_point() else each for each in drawn]
            return [deviation(each) for each in operator.reference(*given)], wide
        except NotAdopted:
            path.unlink()
            raise
        except Exception as error:  # another precision may do
            failed = error
            path.unlink()
    assert failed is not None
    raise NotAdopted(f"its reference cannot be repeated: {described(failed)}")


if __name__ == "__main__":
    main()
