"""Records to test with: complete, plausible, and changed by what a test is about."""

from typing import Any, Final

import msgspec

from harness.records.base import SCHEMA, Environment, Stage, Status
from harness.records.builds import Build
from harness.records.ceilings import CeilingRecord
from harness.records.results import BaselineRecord, BlockPair, Measurement, Record, Trial
from harness.records.sustained import SustainedMeasurement, SustainedRecord, SustainedSide

ENVIRONMENT: Final = Environment(
    gpu="cpu",
    device="A processor",
    device_uuid="",
    driver="none",
    python="3.11.7",
    torch="2.13.0",
    tilelang="0.1.15",
    tvm_ffi="0.1.0",
    judge_sha256="judge",
)


def measurement(low: float, high: float, **changes: Any) -> Measurement:
    fields: dict[str, Any] = {
        "timer": "host",
        "baseline": "torch.matmul",
        "ratio": (low + high) / 2,
        "ratio_low": low,
        "ratio_high": high,
        "stable": True,
        "time_ms": 1.0,
        "tflops": 1.0,
        "baseline_ms": 1.0,
        "baseline_tflops": 1.0,
        "rounds": 2,
        "placements": 2,
        "launches": 5,
        "baseline_launches": 5,
        "verified_blocks": 2,
        "seconds": 0.1,
        "blocks": (BlockPair(0, 1.0, 1.0), BlockPair(1, 1.0, 1.0)),
    }
    return Measurement(**fields | changes)


def record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "recorded_at": "2026-01-01T00:00:00.000+00:00",
        "gpu": "cpu",
        "shape_key": "matmul_f32fp32_8x8x8",
        "model": "me",
        "iteration": "iter001_idea",
        "number": 1,
        "status": Status.PASSED,
        "stage": Stage.BENCH,
        "source_sha256": "source",
        "families_sha256": "families",
        "environment": ENVIRONMENT,
        "idea": "One idea.",
        "parent": "iter000_library",
        "config": "block_M=8",
        "build": Build(0.5, "generated", 100),
        "verification": (Trial("random", 1e-7, 2e-7, 1e-4, 1e-5),),
        "measurement": measurement(1.0, 1.1),
    }
    return Record(**fields | changes)


def baseline_record(**changes: Any) -> BaselineRecord:
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "recorded_at": "2026-01-01T00:00:00.000+00:00",
        "shape_key": "matmul_f32fp32_8x8x8",
        "baseline": "torch.matmul",
        "timer": "host",
        "time_ms": 1.0,
        "tflops": 1.0,
        "environment": ENVIRONMENT,
    }
    return BaselineRecord(**fields | changes)


def sustained(ratio: float, *, mhz: float = 1500, library_mhz: float = 1480) -> SustainedMeasurement:
    """A measurement at the power limit, with an interval of 0.3% on each side."""
    side = SustainedSide(1.6, 680.0, mhz, 700.0, 1.12, 1.02)
    library = SustainedSide(1.6 * ratio, 680 / ratio, library_mhz, 700.0, 1.12 * ratio, 1.02 * ratio)
    bounds = (ratio, ratio * 0.997, ratio * 1.003)
    return SustainedMeasurement("torch.matmul", "events", *bounds, True, side, library, True, 60, (), 1.05, 9.0, ())


def sustained_record(made: Record, ratio: float, **changes: Any) -> SustainedRecord:
    """The record at the power limit of an iteration that has a record at equal clocks."""
    fields: dict[str, Any] = {
        name: getattr(made, name)
        for name in ("schema", "recorded_at", "gpu", "shape_key", "model", "iteration", "number", "environment")
    }
    fields |= {"source_sha256": made.source_sha256, "families_sha256": made.families_sha256}
    return SustainedRecord(**fields | {"status": Status.PASSED, "measurement": sustained(ratio)} | changes)


def ceiling(tflops: float, uuid: str = "", *, environment: Environment = ENVIRONMENT) -> CeilingRecord:
    where = msgspec.structs.replace(environment, device_uuid=uuid)
    return CeilingRecord(SCHEMA, "2026-01-01", "h200", "float32", tflops, 1775, 690, 690 / tflops, 60, True, 2.0, where)
