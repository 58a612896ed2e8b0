"""Notebooks to report on: the H200's own records, changed to what a test is about, in a tree that judges them alike."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.judge.facts.hashes import families_sha256, judge_sha256, source_sha256
from harness.judge.statistics import estimate
from harness.machine.nvml import Moment
from harness.records.base import Cause, Status, identity
from harness.records.builds import BuildRecord
from harness.records.profiles import ProfileRecord
from harness.records.results import Measurement, Record
from harness.records.store import R, append, read
from harness.records.versus import MatchSide, VersusRecord
from tests.harness.checkout import CODE, ROOT

GPU: Final = "h200"
SHAPE: Final = "matmul_bf16fp32_4096x4096x4096"
MODEL: Final = "tilebench"

# What breaks out of a page that forgets to escape: of text, of an attribute, of a script, of a template, of a link.
HOSTILE: Final = (
    "</script><script>window.owned = 1</script><!--<script>"
    "<img src=x onerror=\"window.owned = 2\">'\"><svg onload='window.owned = 3'>"
    "{{ 7 * 7 }}{% raw %}</template></style>\\u003cb\\u003e&lt;b&gt; javascript:window.owned=4 "
    "https://example.invalid/x.png \u202eevil\u2028\x1b[31m\x07"
)
# What a record's place in the tree says, and what is one of a few words.
KEPT: Final = {"gpu", "shape_key", "model", "iteration", "status", "stage", "cause", "outcome", "bound", "confidence"}
TRACE: Final = tuple(Moment(n / 20, 1980 - 15 * min(n, 20), 420.0 + 14 * min(n, 20)) for n in range(30))
UPGRADE: Final = ("0.1.14", "0.1.15")
KEPT_HASHES: Final = {"source_sha256", "families_sha256", "recorded_at"}


@cache
def measured() -> Record:
    """A record of the H200: persistent blocks at 4096³, with build evidence and telemetry."""
    return next(each for each in reversed(_read("results", Record)) if each.number == 6)


@cache
def profiled() -> ProfileRecord:
    return _read("profiles", ProfileRecord)[-1]


@cache
def built() -> BuildRecord:
    return _read("builds", BuildRecord)[-1]


def _read(name: str, kind: type[R]) -> list[R]:
    found, problems = read(ROOT / f"tuning/{GPU}/tilelang/logs/{SHAPE}/{MODEL}/{name}.jsonl", kind)
    assert problems == []
    return found


@dataclass
class Notebook:
    """A tree with the real code in it, so that sources hash as they do in a checkout."""

    tree: Tree
    clock: int = 0

    @classmethod
    def create(cls, root: Path) -> "Notebook":
        for part in CODE:
            (root / part).symlink_to(ROOT / part)
        (root / "tuning").mkdir()
        return cls(Tree(root))

    def write(self, number: int, tag: str, shape: str = SHAPE, model: str = MODEL, extra: str = "") -> Path:
        """An iteration's source."""
        path = self.tree.folder(GPU) / "srcs" / shape / model / f"iter{number:03d}_{tag}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        real = (ROOT / f"tuning/{GPU}/tilelang/srcs/{SHAPE}/{MODEL}/iter006_persistent_tma_store.py").read_text()
        path.write_text(real.replace("num_stages=4", f"num_stages={number % 7}") + extra)
        return path

    def record(self, path: Path, ratio: float | None = 1.0, **changes: Any) -> Record:
        """A record of the source as it is; slower or faster by so much, or of no measurement."""
        iteration = self.tree.parse(path)
        self.clock += 1
        minute, second = divmod(self.clock, 60)
        environment = measured().environment
        fields: dict[str, Any] = {
            "recorded_at": f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:{second:02d}.000+00:00",
            "shape_key": iteration.shape_key,
            "model": iteration.model,
            "iteration": iteration.name,
            "number": iteration.number,
            "parent": None,
            "source_sha256": source_sha256(path),
            "families_sha256": families_sha256(self.tree.root, path),
            "environment": msgspec.structs.replace(
                environment, judge_sha256=judge_sha256(self.tree.root, "matmul", gpus.find(GPU))
            ),
            "measurement": None if ratio is None else measurement(ratio),
        }
        made = msgspec.structs.replace(measured(), **fields | changes)
        append(self.tree.records(GPU, iteration.shape_key, iteration.model), made)
        return made

    def failure(self, path: Path, reason: str, **changes: Any) -> Record:
        fields = {"status": Status.FAILED, "stage": "build", "cause": "compile", "reason": reason, "verification": ()}
        return self.record(path, None, **fields | {"build": None} | changes)

    def profile(self, of: Record, **changes: Any) -> None:
        self._beside(self.tree.profiles(GPU, of.shape_key, of.model), profiled(), of, changes)

    def build(self, of: Record, **changes: Any) -> None:
        self._beside(self.tree.builds(GPU, of.shape_key, of.model), built(), of, changes)

    def pair(self, path: Path, ratio: float | None = None, **changes: Any) -> None:
        """Two environments on an iteration; the new one is faster by so much."""
        iteration = self.tree.parse(path)
        old, new = (MatchSide(f"{version}{HOSTILE}", "3.12.1", version, "2.13.0", version) for version in UPGRADE)
        made = VersusRecord(
            **identity(iteration), old=old, new=new, swapped=False, identical=False, status=Status.PASSED,
            source_sha256=source_sha256(path), families_sha256=families_sha256(self.tree.root, path),
            environment=measured().environment, measurement=None if ratio is None else measurement(ratio),
        )  # fmt: skip
        append(self.tree.versus(GPU, iteration.shape_key), msgspec.structs.replace(made, **changes))

    def _beside(self, path: Path, like: Any, of: Record, changes: dict[str, Any]) -> None:
        named = ("shape_key", "model", "iteration", "number", "source_sha256", "families_sha256")
        append(path, msgspec.structs.replace(like, **{name: getattr(of, name) for name in named} | changes))


def measurement(ratio: float) -> Measurement:
    """The H200's blocks, as they were, with the kernel faster by so much; and a trace, which its records lack."""
    real = measured().measurement
    assert real is not None
    assert real.telemetry is not None
    faster = ratio / real.ratio
    blocks = tuple(msgspec.structs.replace(each, contestant_ms=each.contestant_ms / faster) for each in real.blocks)
    found = estimate(blocks)
    return msgspec.structs.replace(
        real,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        time_ms=real.time_ms / faster,
        tflops=real.tflops * faster,
        blocks=blocks,
        telemetry=msgspec.structs.replace(real.telemetry, trace=TRACE),
    )


def poisoned(value: Any, name: str = "") -> Any:
    """A record with every free text in it hostile, keys of its tables included."""
    if isinstance(value, msgspec.Struct):
        poison = {each: poisoned(getattr(value, each), each) for each in value.__struct_fields__}
        return msgspec.structs.replace(value, **poison)
    if isinstance(value, dict):
        return {f"{key}{HOSTILE}": poisoned(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(poisoned(each) for each in value)
    if type(value) is str and name not in KEPT | KEPT_HASHES:
        return HOSTILE
    return value


def every_state(root: Path) -> Notebook:
    """Two models, two environments, and a row of every outcome."""
    notebook = Notebook.create(root)
    first = notebook.record(notebook.write(0, "torch_matmul"), 1.0)
    kept = notebook.write(2, "warp_specialized")
    elsewhere = msgspec.structs.replace(first.environment, torch="2.13.0", image="sha256:0123456789")
    notebook.record(kept, 1.04, environment=elsewhere, parent="iter001_stock")
    notebook.record(notebook.write(1, "stock"), 0.47, parent="iter000_torch_matmul")
    notebook.record(kept, 1.02, parent="iter001_stock")
    best = notebook.record(kept, 1.03, parent="iter001_stock")
    notebook.profile(best)
    notebook.build(best)
    shaky = msgspec.structs.replace(measurement(1.0), stable=False, telemetry=None)
    notebook.record(notebook.write(3, "unstable"), measurement=shaky, parent="iter002_warp_specialized")
    notebook.failure(notebook.write(4, "does_not_compile"), "error: no such tile <T>")
    wrong = {"status": Status.REJECTED, "stage": "verify", "cause": "wrong_result"}
    notebook.failure(notebook.write(5, "wrong"), "wrong result: max error 3 > 0.01", build=best.build, **wrong)
    stale = notebook.write(6, "stale")
    notebook.record(stale, 0.99)
    stale.write_text(stale.read_text() + "\n# changed since\n")
    verified = notebook.write(7, "verified_only")
    notebook.record(verified, None, stage="verify")
    notebook.write(8, "not_measured")
    attempt = notebook.write(9, "attempted")
    traceback = 'File "kernels/gemm/kernel.py", line 7, in kernel'
    told = {"attempt": "attempt0001", "traceback": traceback}
    failed = notebook.failure(attempt, "it does not fit (attempt0001; 4 of 5 attempts left)", **told)
    notebook.build(failed, status="failed", cause="does_not_fit", reason="too much shared memory", **told)

    notebook.record(notebook.write(1, "other", model="somebody"), 1.01)
    notebook.pair(kept, 0.97)
    notebook.pair(kept, 1 / 0.97, swapped=True)
    notebook.pair(stale, identical=True)
    notebook.pair(verified, status=Status.FAILED, cause=Cause.LOAD, reason=f"ImportError: {HOSTILE}")
    hostile = "linear_bf16fp32_64x8192x8192"
    for number, outcome in enumerate(("passed", "failed")):
        path = notebook.write(number, "hostile", hostile, extra=f"\nNOTE = {HOSTILE!r}  # {HOSTILE[:90]}\n")
        record = notebook.record(path, 1.5) if outcome == "passed" else notebook.failure(path, "")
        logs = notebook.tree.records(GPU, hostile, MODEL)
        logs.write_text("".join(logs.read_text().splitlines(keepends=True)[:-1]))
        evil = msgspec.structs.replace(poisoned(record), reason=HOSTILE, config=f"block_M={HOSTILE!r}")
        append(logs, evil)
        append(notebook.tree.profiles(GPU, hostile, MODEL), poisoned(_of(profiled(), evil)))
        append(notebook.tree.builds(GPU, hostile, MODEL), poisoned(_of(built(), evil, reason="", attempt="")))

    notebook.write(0, "not_measured", "matmul_fp16fp32_512x512x512")
    with notebook.tree.records(GPU, SHAPE, MODEL).open("a") as records:
        records.write('{"schema": 1, "torn')
    return notebook


def _of(like: Any, record: Record, **changes: Any) -> Any:
    named = ("shape_key", "model", "iteration", "number", "source_sha256", "families_sha256")
    return msgspec.structs.replace(like, **{name: getattr(record, name) for name in named} | changes)


def many(root: Path, problems: int, iterations: int) -> Notebook:
    """So many problems of so many iterations each, every one measured twice, built and profiled."""
    notebook = Notebook.create(root)
    for problem in range(problems):
        shape = f"matmul_bf16fp32_{1024 * (problem + 1)}x4096x4096"
        parent = None
        for number in range(iterations):
            path = notebook.write(number, f"idea_{number}", shape)
            notebook.record(path, 0.5 + number / 40, parent=parent)
            record = notebook.record(path, 0.5 + number / 40, parent=parent)
            notebook.build(record)
            notebook.profile(record)
            parent = path.stem
    return notebook
