"""Bisection: the first release, or the first commit of a clone, that a question finds bad.

The question is any function of an environment: whether the build differs (``cli/versus``), or whether it is slower.
"""

import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.boards.revisions import checked_out
from harness.catalog.tree import Tree
from harness.errors import UsageError, last_line, printable
from harness.extras.versus.environment import FOLDER, PythonEnvironment, environment, releases, wheel_of
from harness.machine.git import git
from harness.machine.progress import Reporter, announce

CLONES: Final = FOLDER / "commits"
SOURCES: Final = ("tilelang", "src")  # in TileLang's repository, and in its wheels as tilelang/ and tilelang/src/
NATIVE: Final = ("tilelang/lib/", "tilelang/3rdparty/")  # what a wheel has besides


@dataclass(frozen=True)
class Bisected:
    """The neighbours between which the answer changes: ``good`` is the last without it, ``bad`` the first with it.

    ``skipped`` lie between the two and could not be asked, each with its reason. ``asked`` has the answers in order.
    """

    good: str
    bad: str
    asked: dict[str, bool] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def bisect(names: Sequence[str], ask: Callable[[str], bool]) -> Bisected:
    """The first bad of names in order, of which the first must be good and the last bad.

    ``ask`` raises UsageError for a name that cannot be asked, which is then passed over as by ``git bisect skip``.
    """
    asked: dict[str, bool] = {}
    skipped: dict[str, str] = {}
    if len(names) < 2:
        raise UsageError("bisect needs two different ends, and found nothing between them")
    for name, wanted in ((names[0], False), (names[-1], True)):
        asked[name] = ask(name)
        if asked[name] is not wanted:
            why = "has it already; take an older --old" if asked[name] else "does not have it; nothing is to be found"
            raise UsageError(f"{name} {why}")
    low, high = 0, len(names) - 1
    while between := [each for each in range(low + 1, high) if names[each] not in skipped]:
        middle = min(between, key=lambda each: abs(2 * each - low - high))
        try:
            asked[names[middle]] = ask(names[middle])
        except UsageError as error:
            skipped[names[middle]] = str(error)
            continue
        low, high = (low, middle) if asked[names[middle]] else (middle, high)
    inside = {name: why for name, why in skipped.items() if low < names.index(name) < high}
    return Bisected(names[low], names[high], asked, inside)


def between(old: str, new: str) -> list[str]:
    """TileLang's releases from one to another, both included. Raises UsageError where one is none."""
    from packaging.version import InvalidVersion, Version  # here: each verb would wait 30 ms for it

    try:
        first, last = Version(old.removeprefix("tilelang==")), Version(new.removeprefix("tilelang=="))
    except InvalidVersion as error:
        raise UsageError(f"bisect needs two releases of TileLang, such as --old 0.1.9 --new 0.1.15; {error}") from None
    known = releases()
    for each in (first, last):
        if each not in known:
            raise UsageError(f"TileLang has no release {each} for this Python; known: {', '.join(map(str, known))}")
    if first >= last:
        raise UsageError(f"--old {old} is not older than --new {new}; give the older release as --old")
    return [str(each) for each in known if first <= each <= last]


@dataclass(frozen=True)
class Clone:
    """A clone of TileLang, and the command that leaves a wheel below the folder in which it runs.

    With a release in ``over`` nothing is compiled: the Python files and headers of a commit are laid over it.
    """

    tree: Tree
    folder: Path
    command: str
    reporter: Reporter
    over: str | None = None

    def commits(self, old: str, new: str) -> list[str]:
        """The first parents from one revision to another, the oldest first."""
        first, last = map(self._commit, (old, new))
        later = self._git("rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()
        if not later or later[-1] != last:
            raise UsageError(f"{new} does not come after {old} in {self.folder}")
        return [first, *later]

    def _commit(self, revision: str) -> str:
        self._git("rev-parse", "--git-dir")
        try:
            return self._git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
        except UsageError:
            raise UsageError(f"{self.folder} has no revision '{revision}'") from None

    def environment(self, commit: str) -> PythonEnvironment:
        """The layer with the wheel of a commit. Raises UsageError where the command leaves none."""
        kept = (self.tree.root / CLONES / (f"{commit}-over-{self.over}" if self.over else commit)).absolute()
        if not (wheels := sorted(kept.glob("*.whl"))):
            announce(self.reporter, f"building {commit[:10]}: {f'over {self.over}' if self.over else self.command}")
            kept.mkdir(parents=True, exist_ok=True)
            wheels = [self._laid_over(commit, self.over, kept) if self.over else self._built(commit, kept)]
        return environment(self.tree, str(wheels[-1]), self.reporter)

    def _laid_over(self, commit: str, release: str, kept: Path) -> Path:
        """A wheel of the release's libraries and of what else the commit has in a wheel."""
        base = wheel_of(release, kept.parent / "releases")
        archive, made = kept / "sources.tar", (kept / base.name).with_suffix(".part")
        self._git("archive", f"--output={archive}", commit, *SOURCES)
        with zipfile.ZipFile(base) as old, zipfile.ZipFile(made, "w") as new:
            for held in old.infolist():
                if held.filename.startswith(NATIVE) or not held.filename.startswith("tilelang/"):
                    new.writestr(held, old.read(held))
            with tarfile.open(archive) as sources:
                for file in filter(tarfile.TarInfo.isfile, sources):
                    name = file.name if file.name.startswith("tilelang/") else f"tilelang/{file.name}"
                    new.writestr(name, sources.extractfile(file).read())  # type: ignore[union-attr]
        archive.unlink()
        return made.rename(kept / base.name)

    def _built(self, commit: str, kept: Path) -> Path:
        with checked_out(self.folder, commit) as work:
            done = subprocess.run(self.command, shell=True, cwd=work, capture_output=True, text=True, check=False)
            made = sorted(work.rglob("*.whl"), key=os.path.getmtime)
            if done.returncode or not made:
                said = printable(last_line(done.stderr or done.stdout, "no wheel"), 200)
                raise UsageError(f"{commit[:10]} was not built by '{self.command}': {said}")
            return Path(shutil.move(made[-1], kept))

    def _git(self, *words: str) -> str:
        return git(self.folder, *words, fault=UsageError).decode()
