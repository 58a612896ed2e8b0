"""The verb ceiling: what the tensor cores of this chip reach under its power limit."""

from typing import Annotated

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.options import GpuKey, Json
from harness.cli.reply import Reply
from harness.errors import UsageError
from harness.extras.ceiling.measure import DTYPES, line, measure
from harness.machine.progress import reporting
from harness.records.ceilings import CeilingRecord
from harness.records.store import append


def ceiling(
    *,
    gpu: GpuKey = gpus.AUTO,
    dtype: Annotated[str | None, Parameter(help="Only this dtype: bfloat16, float16 or float8_e4m3fn.")] = None,
    json: Json = False,
) -> Reply[list[CeilingRecord]]:
    """Measure the power ceiling: tensor cores fed from shared memory, with nothing to move."""
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype} is not one of {', '.join(DTYPES)}")
    tree = Tree.here()
    key, device = gpus.resolve(gpu)
    with reporting(0) as reporter:
        found = measure(tree, key, device, (dtype,) if dtype else DTYPES, reporter)
    for record in found:
        append(tree.ceilings(key.key), record)
    return Reply(found, lambda: "\n".join(map(line, found)))
