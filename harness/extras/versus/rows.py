"""Rows: what two environments made of one iteration, and which of the differences a caller fails on."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from enum import StrEnum
from itertools import product
from typing import Final, Literal

import msgspec

from harness.boards.comparison import SIZE
from harness.catalog.tree import Iteration
from harness.errors import printable
from harness.extras.versus.cases import BenchmarkCase
from harness.extras.versus.compiling import BuildCompiler, BuildOrder, KernelCode, VersusBuild
from harness.extras.versus.environment import PythonEnvironment

FIGURES: Final = {"registers": "registers", "spills": "spill_bytes", "shared": "shared_bytes", "SASS": "instructions"}
FAIL_ON: Final = rf"broken|different|spills|registers{SIZE}", "broken, different, spills, or registers:10%"
SAMPLES: Final = 3  # at most, of one iteration in one environment
UNSTEADY: Final = "environment differ"
REFUSED: Final = r"contract: |(Attribute|Import|ModuleNotFound|Name|Syntax|Type)Error: "
BuildQuestion = Literal["different", "broken", "spills"]


class BuildChange(StrEnum):
    SAME = "same"
    VARIES = "varies"
    DIFFERENT = "different"
    BROKEN = "broken"
    FIXED = "fixed"
    FAILS = "fails"


STEADY: Final = (BuildChange.SAME, BuildChange.VARIES)  # no row is shown for these


class VersusSide(msgspec.Struct, frozen=True):
    """One environment's build of an iteration; the kernel with the most instructions is first."""

    error: str | None
    seconds: float
    source_sha256: str | None
    code_sha256: str | None
    kernels: tuple[KernelCode, ...]


class VersusRow(msgspec.Struct, frozen=True):
    """One iteration in both environments.

    The verdict is *same* where both give one machine code, in their first build or in another. *varies* differs no
    more than two builds of one environment do: by the order of buffers, or with the same figures and instructions.
    *broken* compiles in the old environment alone, *fixed* in the new one alone, *fails* in neither. ``notes`` say what
    differs. ``diff`` is that of the generated sources, null unless it is asked for. ``launched_alike`` says whether
    grids, blocks and parameters are the same, as far as each TileLang tells them in the same words.
    """

    problem: str
    model: str
    iteration: str
    verdict: BuildChange
    old: VersusSide
    new: VersusSide
    notes: tuple[str, ...] = ()
    diff: str | None = None
    launched_alike: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """What an iteration's key is."""
        return self.problem, self.model, self.iteration

    def figures(self, name: str) -> tuple[int | None, int | None]:
        """A figure of the first kernel, old and new."""
        before, after = ((getattr(side.kernels[0], name) if side.kernels else None) for side in (self.old, self.new))
        return before, after


def fails(limits: Mapping[str, float], row: VersusRow) -> bool:
    """Whether a row makes the exit code 1, by FAIL_ON; *broken* always does."""
    if row.verdict is not BuildChange.DIFFERENT:
        return row.verdict is BuildChange.BROKEN
    return "different" in limits or any(_exceeds(name, least, row) for name, least in limits.items())


def _exceeds(name: str, least: float, row: VersusRow) -> bool:
    before, after = row.figures(FIGURES[name]) if name in FIGURES else (None, None)
    return before is not None and after is not None and after > before * (1 + least)


def answers(question: BuildQuestion, row: VersusRow) -> bool:
    """Whether a row says yes to the question of a bisection; what does not compile differs too."""
    if row.verdict is BuildChange.BROKEN or question == "broken":
        return row.verdict is BuildChange.BROKEN and question != "spills"
    return fails({question: 0.0}, row)


def versus(
    compiler: BuildCompiler,
    iterations: Sequence[Iteration | BenchmarkCase],
    old: PythonEnvironment,
    new: PythonEnvironment,
    *,
    diff: bool = False,
) -> list[VersusRow]:
    """Build each iteration in both environments.

    What differs is built once more, since lowering is not deterministic, and what failed, since a machine may be busy.
    What Python refuses it refuses again. What one environment builds in several ways is built a third time.
    """
    compiler.build(BuildOrder(each, where) for each in iterations for where in (old, new))
    rows = {each: _row(compiler, each, old, new, diff) for each in iterations}
    for sample, (where, name) in product(range(2, SAMPLES + 1), ((old, "old"), (new, "new"))):
        unsure = {each: getattr(row, name).error for each, row in rows.items() if row.verdict not in STEADY}
        compiler.build(
            BuildOrder(each, where, sample) for each, error in unsure.items() if _is_worth(sample, rows[each], error)
        )
        rows |= {each: _row(compiler, each, old, new, diff) for each in unsure}
    return list(rows.values())


def _is_worth(sample: int, row: VersusRow, error: str | None) -> bool:
    """Whether another build may say something else."""
    if sample > 2:
        return row.verdict is BuildChange.DIFFERENT and any(note.endswith(UNSTEADY) for note in row.notes)
    return row.verdict is BuildChange.DIFFERENT or bool(error and not re.match(REFUSED, error))


def _row(
    compiler: BuildCompiler,
    iteration: Iteration | BenchmarkCase,
    old: PythonEnvironment,
    new: PythonEnvironment,
    diff: bool,
) -> VersusRow:
    before, after = (_samples(compiler, iteration, where) for where in (old, new))
    one, other = _alike(before, after) or (_best(before), _best(after))
    verdict = _verdict(one, other)
    if verdict is BuildChange.DIFFERENT and _varies(before, after):
        verdict = BuildChange.VARIES
    notes = list(_notes(one, other)) if verdict is BuildChange.DIFFERENT else []
    for name, side in (("old", one), ("new", other)):
        notes += [f"{name}: {printable(side.error, 200)}"] if side.error else []
    for name, samples in (("old", before), ("new", after)):
        if len({each.code_sha256 for each in samples}) > 1:
            notes.append(f"two builds by the {name} {UNSTEADY}")
    changes = unified_diff(one.source.splitlines(), other.source.splitlines(), "old", "new", lineterm="")
    return VersusRow(
        problem=iteration.shape_key,
        model=iteration.model,
        iteration=iteration.name,
        verdict=verdict,
        old=_side(one),
        new=_side(other),
        notes=tuple(notes),
        diff="\n".join(changes) if diff and verdict is BuildChange.DIFFERENT else None,
        launched_alike=one.launch == other.launch,
    )


def _samples(
    compiler: BuildCompiler, iteration: Iteration | BenchmarkCase, where: PythonEnvironment
) -> list[VersusBuild]:
    orders = (BuildOrder(iteration, where, sample) for sample in range(1, SAMPLES + 1))
    return [compiler.made[order] for order in orders if order in compiler.made]


def _alike(before: Iterable[VersusBuild], after: Sequence[VersusBuild]) -> tuple[VersusBuild, VersusBuild] | None:
    """A build of each side with the same machine code and launch."""
    pairs = ((one, other) for one in before for other in after if one.error is None and other.error is None)
    return next(((one, other) for one, other in pairs if _verdict(one, other) is BuildChange.SAME), None)


def _varies(before: Sequence[VersusBuild], after: Sequence[VersusBuild]) -> bool:
    """Whether one environment gives more than one code, and both some with the same figures and instructions."""
    unsteady = any(len({each.code_sha256 for each in side if not each.error}) > 1 for side in (before, after))
    return unsteady and any(one.kernels == other.kernels for one in before for other in after if one.kernels)


def _best(samples: Sequence[VersusBuild]) -> VersusBuild:
    """The first that compiled, else the first."""
    return next((each for each in samples if each.error is None), samples[0])


def _verdict(old: VersusBuild, new: VersusBuild) -> BuildChange:
    if old.error or new.error:
        return BuildChange.FAILS if old.error and new.error else BuildChange.FIXED if old.error else BuildChange.BROKEN
    same = old.code_sha256 == new.code_sha256 and not any(_moved(old, new))
    return BuildChange.SAME if same else BuildChange.DIFFERENT


def _moved(old: VersusBuild, new: VersusBuild) -> Iterator[str]:
    """What a launch has another number of, as far as both environments say it."""
    for name in sorted(old.extents.keys() & new.extents.keys()):
        if old.extents[name] != new.extents[name]:
            yield f"{name} {old.extents[name]} > {new.extents[name]}"


def _notes(old: VersusBuild, new: VersusBuild) -> Iterable[str]:
    """What differs, in words; the table has the figures of the first kernel."""
    if moved := list(_moved(old, new)):
        yield f"launch: {', '.join(moved)}"
    if old.code_sha256 == new.code_sha256:
        return
    if old.source == new.source:
        yield "one generated source: the headers of TileLang differ"
    if len(old.kernels) != len(new.kernels):
        yield f"{len(old.kernels)} > {len(new.kernels)} kernels"
    before, after = (side.kernels[0].classes if side.kernels else {} for side in (old, new))
    changed = {name: after.get(name, 0) - before.get(name, 0) for name in (*before, *after)}
    if words := [f"{name} {count:+d}" for name, count in changed.items() if count]:
        yield f"instructions: {', '.join(words)}"
    elif before and old.source != new.source:
        yield "as many instructions of each class, in another order or with other operands"


def _side(build: VersusBuild) -> VersusSide:
    source = hashlib.sha256(build.source.encode()).hexdigest() if build.source else None
    return VersusSide(build.error, build.seconds, source, build.code_sha256, build.kernels)
