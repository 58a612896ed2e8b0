"""The audit of scripts, and of a ladder ``…/{srcs,perf,logs}/<shape_key>/<model>/`` their figures too: it runs none."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.catalog.names import loose_number, ordinal
from harness.errors import InfrastructureError, UsageError
from harness.extras.foreign import results, source
from harness.extras.foreign.finding import AuditFinding, Kind
from harness.extras.foreign.results import ClaimedFigure
from harness.extras.foreign.scripts import figures_of, is_in_ladder, python_files
from harness.extras.foreign.source import ParsedScript
from harness.extras.profile import report
from harness.judge.facts.problem import Problem

DISAGREE: Final = 1.10  # quotient of two figures of one program; a chip's temperature alone makes half of the excess
Figures = Mapping[int, list[ClaimedFigure]]  # by the number of the iteration


def audit(roots: Sequence[Path], problem: Problem | None = None) -> list[AuditFinding]:
    """All findings, folder by folder; ``problem`` is that of scripts in no ladder, else guessed from their tensors.

    Raises UsageError where there is neither a script nor a figure.
    """
    folders: dict[Path, set[Path]] = defaultdict(set)
    for root in map(Path.absolute, roots):
        for path in python_files(root):
            folders[path.parent].add(path)
        for part in ("perf", "logs") if root.is_dir() else ():
            for path in root.rglob(f"{part}/*/*/*"):
                if path.suffix in (".txt", ".tsv", ".csv", ".jsonl"):
                    _ = folders[figures_of(path.parent, "srcs")]
    if not folders:
        raise UsageError(f"{', '.join(map(str, roots))}: no Python script there, and no results of scripts")
    return [finding for folder in sorted(folders) for finding in _of_folder(folder, folders[folder], problem)]


def _reason(error: Exception) -> str:
    """The first line; of wrong syntax with this Python's version, as a newer one may read it."""
    if isinstance(error, SyntaxError):
        return f"{error.msg.splitlines()[0]}, says Python {sys.version_info.major}.{sys.version_info.minor}"
    return str(error).split("\n")[0]


def _of_folder(folder: Path, paths: Iterable[Path], problem: Problem | None) -> Iterator[AuditFinding]:
    """The findings of a folder's scripts; in a ladder also of their figures and of how they are alike."""
    scripts: list[ParsedScript] = []
    for path in sorted(paths):
        try:
            script = source.parse(path, None if is_in_ladder(path) else problem)
            found = list(source.examine(script))
        except (RecursionError, MemoryError):
            yield AuditFinding(Kind.UNREADABLE, path, 0, "its source is nested too deeply")
        except (SyntaxError, ValueError, OSError) as error:
            yield AuditFinding(Kind.UNREADABLE, path, getattr(error, "lineno", 0) or 0, _reason(error))
        else:
            scripts.append(script)
            yield from found
    if not is_in_ladder(folder / "any.py"):
        return
    figures: dict[int, list[ClaimedFigure]] = defaultdict(list)
    for part in ("perf", "logs"):
        claimed, unreadable = results.read(figures_of(folder, part))
        for each in claimed:
            figures[each.number].append(each)
        yield from unreadable
    yield from _duplicates(scripts, figures)
    yield from _without_source(folder, figures)
    yield from _profiles(folder, scripts)


def _duplicates(scripts: list[ParsedScript], figures: Figures) -> Iterator[AuditFinding]:
    """Scripts that are one program, and programs with figures that disagree."""
    groups: dict[str, list[ParsedScript]] = defaultdict(list)
    for script in scripts:
        groups[script.essence].append(script)
        first = groups[script.essence][0]
        if script is not first:
            yield AuditFinding(Kind.DUPLICATE, script.path, 0, f"the same program as {first.path.name}")
    for first, *others in groups.values():
        numbers = [number for script in (first, *others) if (number := loose_number(script.path.name)) is not None]
        found = [each for number in numbers for each in figures.get(number, [])]
        found = [each for each in found if each.made_by] or found  # the tables beside records repeat them
        # Another judge may measure in another way, and other families make another program.
        for made_by in dict.fromkeys(each.made_by for each in found):
            yield from _disagreement(first.path, [each for each in found if each.made_by == made_by])


def _disagreement(path: Path, found: list[ClaimedFigure]) -> Iterator[AuditFinding]:
    """Compare one program's figures: its ratios to the library where all have one, else its times.

    Where ratios differ and times do not, the library was called in another way, and the program has one figure.
    """
    if not found:
        return
    by_ratio = all(each.ratio is not None for each in found)

    def value(each: ClaimedFigure) -> float:
        return each.ratio if by_ratio and each.ratio is not None else each.time_ms

    low, high = min(found, key=value), max(found, key=value)
    times = sorted((low.time_ms, high.time_ms))
    if value(high) > DISAGREE * value(low) and times[1] > DISAGREE * times[0]:
        what = (
            f"{value(low):.4g} {'of the library' if by_ratio else 'ms'} at {low.path.name}:{low.line} and "
            f"{value(high):.4g} at {high.path.name}:{high.line}, {value(high) / value(low):.2f}x apart"
        )
        yield AuditFinding(Kind.DISAGREES, path, 0, what)


def _without_source(folder: Path, figures: Figures) -> Iterator[AuditFinding]:
    present = {loose_number(path.name) for path in folder.glob("*.py")}
    for number, (first, *_) in sorted(figures.items()):
        if number not in present:
            yield AuditFinding(Kind.NO_SOURCE, first.path, first.line, f"{ordinal(number)} has a figure and no script")


def _profiles(folder: Path, scripts: list[ParsedScript]) -> Iterator[AuditFinding]:
    """Profiles that show no kernel of their script."""
    for path in sorted(figures_of(folder, "perf").glob("ncu_iter*.csv")):
        number = loose_number(path.name)
        own = [script for script in scripts if number is not None and loose_number(script.path.name) == number]
        names = {name for script in own for name in script.kernels} or {"main_kernel"}
        try:
            shown = [kernel.name for kernel in report.parse(path.read_text(errors="replace"), path.name)]
        except (InfrastructureError, OSError) as error:
            yield AuditFinding(Kind.UNREADABLE, path, 0, str(error))
            continue
        if not any(_plain(name) in names for name in shown):
            what = f"it shows {', '.join(dict.fromkeys(name[:60] for name in shown)) or 'nothing'}"
            yield AuditFinding(Kind.WRONG_KERNEL, path, 0, what)


def _plain(name: str) -> str:
    """A kernel's name without its return type, template arguments and parameters."""
    return re.sub(r"<.*|\(.*", "", name).rpartition(" ")[2].rpartition("::")[2]
