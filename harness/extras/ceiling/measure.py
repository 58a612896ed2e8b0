"""Measure the power ceiling: one kernel in this process, long enough for the clock to settle."""

import os
import time
from typing import Any, Final

from harness.catalog.gpus import VISIBLE
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.evidence import toolchain
from harness.extras.ceiling.kernel import COLUMNS, ROW_BYTES, ROWS, STAGES, block_flops, program
from harness.judge.facts.architectures import has_wgmma
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, Problem
from harness.judge.power_meter import PowerMeter
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.base import SCHEMA, now
from harness.records.ceilings import CeilingRecord
from harness.records.environment import describe
from harness.records.store import append
from harness.records.sustained import POWER_CAP, PowerReading
from harness.runs.run import alone

DTYPES: Final = ("bfloat16", "float16", "float8_e4m3fn")
SETTLE_S: Final = 1.0
COUNTED_S: Final = 2.0
LAUNCH_S: Final = 0.01  # about; a launch so long hides what launching costs
SPREAD: Final = 0.05  # standard deviation of the inputs: that of a product with K = 8,192


def measure(
    tree: Tree, gpu: Gpu, device: Device | None, dtypes: tuple[str, ...], reporter: Reporter
) -> list[CeilingRecord]:
    """The ceiling for each dtype, recorded before the next one is measured.

    Raises UsageError for a GPU without WGMMA, or without a rate for one of the dtypes.
    """
    if device is None or not has_wgmma(gpu.arch) or gpu.sms is None:
        raise UsageError(f"the ceiling's kernel is made of WGMMA; {gpu.key} is {gpu.arch}, which has none")
    toolchain.find().require(cpu=False)
    os.environ[VISIBLE] = device.uuid  # before torch looks: its first GPU is then this one
    found = []
    with alone(tree, gpu, device):
        environment = describe(tree.root, gpu, device, "matmul")
        for dtype in dtypes:
            reporter.doing(f"power ceiling of {dtype}")
            tflops, seconds, chip = _run(gpu, device, dtype, gpu.sms)
            found.append(
                CeilingRecord(
                    schema=SCHEMA,
                    recorded_at=now(),
                    gpu=gpu.key,
                    dtype=dtype,
                    tflops=round(tflops, 2),
                    sm_clock_mhz=chip.sm_clock_mhz,
                    power_w=chip.power_w,
                    pj_per_flop=round(chip.power_w / tflops, 4),  # W over TFLOPS
                    temperature_c=chip.temperature_c,
                    at_limit=POWER_CAP in chip.throttle,
                    seconds=round(seconds, 3),
                    environment=environment,
                )
            )
            append(tree.ceilings(gpu.key), found[-1])
            reporter.finished(line(found[-1]))
    return found


def line(record: CeilingRecord) -> str:
    held = "" if record.at_limit else ", below the power limit"
    return (
        f"{record.gpu} {record.dtype}: {record.tflops:.0f} TFLOPS with nothing to move, {record.power_w:.0f} W at "
        f"{record.sm_clock_mhz:.0f} MHz, {record.pj_per_flop:.3f} pJ per flop{held}"
    )


def _run(gpu: Gpu, device: Device, dtype: str, sms: int) -> tuple[float, float, PowerReading]:
    """TFLOPS, seconds, and the chip meanwhile. Raises InfrastructureError where the driver tells nothing."""
    import torch

    steps = _steps(gpu, dtype)
    launch = _launcher(gpu, dtype, sms, steps)
    launch_flops = sms * block_flops(steps, DTYPE_BYTES[dtype])

    def launches(seconds: float) -> tuple[int, float, float]:
        began = time.monotonic()
        count = 0
        while time.monotonic() - began < seconds:
            for _ in range(4):
                launch()
            count += 4
            torch.cuda.synchronize()
        return count, began, time.monotonic()

    with PowerMeter(device) as meter:
        launches(SETTLE_S)
        count, began, ended = launches(COUNTED_S)
    chip = meter.reading(began, ended)
    if chip is None:
        raise InfrastructureError(f"{device.name}: NVML tells neither clock nor power, so there is no ceiling")
    return count * launch_flops / (ended - began) / 1e12, ended - began, chip


def _steps(gpu: Gpu, dtype: str) -> int:
    """Steps of one launch of about LAUNCH_S at the datasheet's rate."""
    rate = gpu.peak_tflops(Problem("matmul", dtype, "float32", dtype, (ROWS, COLUMNS, ROW_BYTES)))
    if rate is None or gpu.sms is None:
        raise UsageError(f"{gpu.key} has no rate for {dtype} in gpus.toml")
    return round(LAUNCH_S * rate * 1e12 / gpu.sms / block_flops(1, DTYPE_BYTES[dtype]))


def _launcher(gpu: Gpu, dtype: str, sms: int, steps: int) -> Any:
    """The compiled kernel, bound to random operands."""
    import tilelang
    import torch

    from harness.judge.child.kernel import target_of

    itemsize = DTYPE_BYTES[dtype]
    kernel = tilelang.compile(program(dtype, itemsize, sms, steps), out_idx=None, target=target_of(gpu))

    def operand(rows: int) -> Any:
        shape = (sms, STAGES, rows, ROW_BYTES // itemsize)
        return (torch.randn(shape, device="cuda") * SPREAD).to(getattr(torch, dtype))

    left, right = operand(ROWS), operand(COLUMNS)
    total = torch.empty((sms, ROWS, COLUMNS), device="cuda", dtype=torch.float32)
    return lambda: kernel(left, right, total)
