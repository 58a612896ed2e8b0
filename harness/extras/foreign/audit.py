"""The audit of a tree ``…/{srcs,perf,logs}/<shape_key>/<model>/``: every script and every figure, read and not run."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.catalog.names import loose_number
from harness.errors import InfrastructureError, UsageError
from harness.extras.foreign import results, source
from harness.extras.foreign.finding import WHY, Finding, Kind
from harness.extras.foreign.results import Result
from harness.extras.foreign.source import Script
from harness.extras.profile import report

DISAGREE: Final = 1.10  # how far apart the figures of one program may be; a chip's temperature makes half of it


def audit(root: Path) -> list[Finding]:
    """All findings, folder by folder; raises UsageError where there is no such tree."""
    folders = sorted({path.parent for path in root.rglob("*.py") if "srcs" in path.relative_to(root).parts})
    measured = {
        path.parent
        for part in ("perf", "logs")
        for path in root.rglob(f"{part}/*/*/*")
        if path.suffix in (".txt", ".tsv", ".csv", ".jsonl")
    }
    folders += sorted(folder for folder in {_sources_of(path) for path in measured} if folder not in folders)
    if not folders:
        raise UsageError(f"{root} holds no scripts under a folder srcs/<shape_key>/<model>/, and no results of such")
    return [finding for folder in folders for finding in _folder(folder)]


def summary(findings: list[Finding]) -> list[tuple[str, int, int, str]]:
    """By kind: how many findings, in how many files, and why it matters; the most frequent first."""
    counted = Counter(finding.kind for finding in findings)
    files = {kind: len({each.path for each in findings if each.kind is kind}) for kind in counted}
    return [(kind.value, count, files[kind], WHY[kind]) for kind, count in counted.most_common()]


def _folder(folder: Path) -> Iterator[Finding]:
    """One problem's scripts of one model, and what is recorded of them."""
    scripts: list[Script] = []
    for path in sorted(folder.glob("*.py")):
        try:
            script = source.parse(path, folder.parent.name)
            found = list(source.examine(script))
        except (RecursionError, MemoryError):
            yield Finding(Kind.UNREADABLE, path, 0, "its source is nested too deeply")
            continue
        except (SyntaxError, ValueError, OSError) as error:
            yield Finding(Kind.UNREADABLE, path, getattr(error, "lineno", 0) or 0, str(error).split("\n")[0])
            continue
        scripts.append(script)
        yield from found
    times, unread = _times(folder)
    yield from unread
    yield from _duplicates(scripts, times)
    yield from _figures(folder, times)
    yield from _reports(folder, scripts)


def _times(folder: Path) -> tuple[dict[int, list[Result]], list[Finding]]:
    found: dict[int, list[Result]] = {}
    unread: list[Finding] = []
    for part in ("perf", "logs"):
        figures, complaints = results.read(_beside(folder, part))
        for result in figures:
            found.setdefault(result.number, []).append(result)
        unread += complaints
    return found, unread


def _duplicates(scripts: list[Script], times: dict[int, list[Result]]) -> Iterator[Finding]:
    """Scripts that are one program, and whether its figures are one too."""
    first: dict[str, Script] = {}
    groups: dict[str, list[int]] = {}
    for script in scripts:
        essence = script.essence
        number = loose_number(script.path.name)
        if number is not None:
            groups.setdefault(essence, []).append(number)
        if essence in first:
            yield Finding(Kind.DUPLICATE, script.path, 0, f"the same program as {first[essence].path.name}")
        first.setdefault(essence, script)
    for essence, numbers in groups.items():
        yield from _apart(first[essence].path, [result for number in numbers for result in times.get(number, [])])


def _apart(path: Path, found: list[Result]) -> Iterator[Finding]:
    """Whether one program's figures are too far apart: its ratios to the library where all have one, else its times."""
    if not found:
        return
    by_ratio = all(each.ratio is not None for each in found)

    def figure(each: Result) -> float:
        return each.ratio if by_ratio and each.ratio is not None else each.time_ms

    low, high = min(found, key=figure), max(found, key=figure)
    if figure(high) > DISAGREE * figure(low):
        unit = "of the library" if by_ratio else "ms"
        what = (
            f"{figure(low):.4g} {unit} at {low.path.name}:{low.line} and {figure(high):.4g} at "
            f"{high.path.name}:{high.line}, {figure(high) / figure(low):.2f}x apart"
        )
        yield Finding(Kind.DISAGREES, path, 0, what)


def _figures(folder: Path, times: dict[int, list[Result]]) -> Iterator[Finding]:
    """Figures of iterations whose source is gone."""
    there = {loose_number(path.name) for path in folder.glob("*.py")}
    for number, found in sorted(times.items()):
        if number not in there:
            yield Finding(Kind.NO_SOURCE, found[0].path, found[0].line, f"iter{number:03d} has a figure and no script")


def _reports(folder: Path, scripts: list[Script]) -> Iterator[Finding]:
    """Profiles whose kernels are none of the script's."""
    for path in sorted(_beside(folder, "perf").glob("ncu_iter*.csv")):
        number = loose_number(path.name)
        own = [script for script in scripts if number is not None and loose_number(script.path.name) == number]
        names = {name for script in own for name in script.kernels} or {"main_kernel"}
        try:
            shown = [kernel.name for kernel in report.parse(path.read_text(errors="replace"), path.name)]
        except (InfrastructureError, OSError) as error:
            yield Finding(Kind.UNREADABLE, path, 0, str(error))
            continue
        if not any(_plain(name) in names for name in shown):
            what = f"it shows {', '.join(dict.fromkeys(name[:60] for name in shown)) or 'nothing'}"
            yield Finding(Kind.WRONG_KERNEL, path, 0, what)


def _plain(name: str) -> str:
    """A kernel's name without its return type, template arguments and parameters."""
    return re.sub(r"<.*|\(.*", "", name).rpartition(" ")[2].rpartition("::")[2]


def _beside(folder: Path, part: str) -> Path:
    return folder.parents[2] / part / folder.parent.name / folder.name


def _sources_of(folder: Path) -> Path:
    return folder.parents[2] / "srcs" / folder.parent.name / folder.name
