"""Notebooks gathered into this one: the iterations and records of other machines, each once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.authoring import scaffold
from harness.catalog import gpus, names
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError, explained, printable
from harness.judge.facts.problem import parse_shape_key
from harness.machine import files
from harness.records.base import SCHEMA, content_id, without_none
from harness.records.results import Record
from harness.records.store import appending, read
from harness.runs import companion_files

PARTS: Final = ("tilelang", "foreign")  # what makes a folder tuning/<gpu> a notebook
RECORDS: Final = "**/*.jsonl"
SOURCES: Final = "tilelang/srcs/*/*/*.py"
# Files that no record makes again; a newer one under the same name stays.
LOOSE: Final = ("tilelang/perf/*/*/ncu_*", "tilelang/logs/*/*/*.log", "tilelang/logs/*/*/drafts/*.py")
NUMBERED: Final = ("attempt", "race")  # numbers that a notebook gives, each to one attempt or one search


class Gathered(msgspec.Struct, frozen=True):
    """New iterations and records of one GPU key; ``known`` counts the records that were there before."""

    gpu: str
    iterations: int
    records: int
    known: int


@dataclass(frozen=True)
class Line:
    """One whole line of a file of records; ``place`` is the file and the line's number."""

    raw: bytes
    content: dict[str, Any]
    place: str

    @cached_property
    def id(self) -> str:
        return content_id(self.content)

    @property
    def group(self) -> str | None:
        return next((f"{name} {found}" for name in NUMBERED if (found := self.content.get(name)) is not None), None)


@dataclass(frozen=True, slots=True)
class Merger:
    """What a notebook lacks of others: nothing is written before all of it is known to fit."""

    own: Path
    sources: dict[Path, Path]  # by the place in this notebook, as ``loose``
    loose: dict[Path, Path]
    lines: dict[Path, list[Line]]
    known: int

    def carry_out(self) -> Gathered:
        for target, source in (*self.sources.items(), *self.loose.items()):
            files.put(target, _bytes(source))
        added = sum(len(_append(path, lines, self.own.name)) for path, lines in self.lines.items())
        return Gathered(self.own.name, len(self.sources), added, self.known)


def gather(tree: Tree, folders: Sequence[Path]) -> tuple[list[Gathered], list[str]]:
    """Merge notebooks into the tree. Returns what each GPU key got, and complaints about lines that were left.

    Raises UsageError, before anything is written, where two notebooks contradict each other.
    """
    complaints: list[str] = []
    found: dict[str, list[Path]] = defaultdict(list)
    for notebook in (each for folder in folders for each in notebooks(folder)):
        found[gpus.find(notebook.name, auto=False).key].append(notebook)
    with scaffold.alone(tree) if (tree.root / "tuning").is_dir() else nullcontext():  # else nothing is there to be held
        mergers = {key: _merger(tree.root / "tuning" / key, others, complaints) for key, others in found.items()}
        for merger in mergers.values():
            _require_known(merger.sources)
        gathered = [merger.carry_out() for merger in mergers.values()]
    for key, merger in mergers.items():
        write_companions(tree, key, merger.lines)
    return gathered, complaints


def add(path: Path, content: bytes, gpu: str) -> list[bytes]:
    """Append the records in whole lines, but those that the file has; returns what it lacked."""
    return _append(path, _parsed(content.split(b"\n"), path, gpu, []), gpu)


def notebooks(folder: Path) -> list[Path]:
    """The folders ``tuning/<gpu>`` that a folder is or holds. Raises UsageError without any."""
    own = folder.resolve()
    keys = [each for each in sorted(own.glob("*")) if each.name in gpus.table()]
    places = (own, *keys, *sorted(own.glob("tuning/*")))
    found = [place for place in places if any((place / part).is_dir() for part in PARTS)]
    if not found:
        raise UsageError(f"{folder} is no notebook; name a folder tuning/<gpu>, or one that holds it")
    return found


def _merger(own: Path, others: Iterable[Path], complaints: list[str]) -> Merger:
    notes = [each for each in others if each != own]
    lines: dict[Path, list[Line]] = {}
    known = 0
    for name in sorted({path.relative_to(each) for each in notes for path in each.glob(RECORDS)}):
        present = _lines(own / name, own.name, [])
        new: list[Line] = []
        for each in notes:
            theirs = _lines(each / name, own.name, complaints)
            added = _lacking([*present, *new], theirs)
            known += len(theirs) - len(added)
            new += added
        if new:
            lines[own / name] = new
    loose = {own / path.relative_to(each): path for each in notes for form in LOOSE for path in each.glob(form)}
    loose = {target: path for target, path in loose.items() if not target.exists()}
    return Merger(own, _new_sources(own, notes), loose, lines, known)


def _new_sources(own: Path, notes: Iterable[Path]) -> dict[Path, Path]:
    """The iterations that are missing. Raises UsageError where one name or number stands for two sources."""
    held = {_place(path, own): path for path in own.glob(SOURCES)}
    new: dict[Path, Path] = {}
    for notebook, path in ((each, path) for each in notes for path in sorted(each.glob(SOURCES))):
        other = held.setdefault(_place(path, notebook), path)
        if other == path:
            new[own / path.relative_to(notebook)] = path
        elif other.name != path.name or _bytes(other) != _bytes(path):
            raise UsageError(f"{other} and {path} are different iterations of one number; give one the next number")
    return new


def _require_known(sources: Mapping[Path, Path]) -> None:
    """Raise UsageError where new iterations are of an operator that only the other repository has."""
    for source in sources.values():
        try:
            parse_shape_key(source.parts[-3])
        except UsageError as error:
            raise UsageError(
                f"{source.parents[1]}: {error}; copy the operator's files into this repository first"
            ) from None


def _place(path: Path, notebook: Path) -> tuple[Path, str]:
    """The ladder of an iteration, and its number there; the name of a file that is none."""
    parsed = names.parsed(path.stem)
    return path.parent.relative_to(notebook), names.ordinal(parsed[0]) if parsed else path.name


def _lacking(present: Sequence[Line], theirs: Sequence[Line]) -> list[Line]:
    """Their lines that are not present, each once. Raises UsageError where the two contradict each other."""
    held = {each.id: each for each in present}
    own_ids, their_ids = _ids_of_groups(present), _ids_of_groups(theirs)
    added: dict[str, Line] = {}
    for each in theirs:
        other = held.get(each.id) or added.get(each.id)
        if other is None:
            added[each.id] = each
            ours = own_ids.get(each.group, {})
            if rest := ours.keys() - their_ids[each.group].keys():
                raise _contradiction(ours[rest.pop()], each, f"{each.group}")
        elif without_none(other.content) != without_none(each.content):
            raise _contradiction(other, each, f"the id {each.id}")
    return list(added.values())


def _ids_of_groups(lines: Iterable[Line]) -> dict[str | None, dict[str, Line]]:
    """The lines of each attempt and each race by their ids; those of none have no group."""
    found: dict[str | None, dict[str, Line]] = defaultdict(dict)
    for each in lines:
        if each.group is not None:
            found[each.group][each.id] = each
    return found


def _contradiction(one: Line, other: Line, name: str) -> UsageError:
    return UsageError(f"{one.place} and {other.place} are different records of {name}; gather only one of the two")


def _lines(path: Path, gpu: str, complaints: list[str]) -> list[Line]:
    """The records of a file, and a complaint for each line that is none. Raises UsageError for another GPU key's."""
    *whole, torn = _bytes(path).split(b"\n") if path.exists() else [b""]
    if torn.strip():
        complaints.append(printable(f"{path}:{len(whole) + 1}: torn last line, left"))
    return _parsed(whole, path, gpu, complaints)


def _append(path: Path, lines: Iterable[Line], gpu: str) -> list[bytes]:
    """Append, all or none, the lines that are still missing: another command may have gathered the same."""
    with appending(path) as write:
        present = {each.id for each in _lines(path, gpu, [])}
        missing = {each.id: each.raw for each in lines if each.id not in present}
        if missing:
            write(b"".join(raw + b"\n" for raw in missing.values()))
    return list(missing.values())


def _parsed(lines: Iterable[bytes], path: Path, gpu: str, complaints: list[str]) -> list[Line]:
    found = []
    for number, raw in enumerate(lines, start=1):
        place = f"{path}:{number}"
        content = _decoded(raw)
        if content is None:
            if raw.strip():
                complaints.append(printable(f"{place}: no record of schema {SCHEMA}, left"))
            continue
        if content.get("gpu", gpu) != gpu:
            raise UsageError(f"{place} is a record of {content['gpu']}, in a notebook of {gpu}")
        found.append(Line(raw, content, place))
    return found


def _decoded(raw: bytes) -> dict[str, Any] | None:
    try:
        content = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("schema") == SCHEMA else None


def write_companions(tree: Tree, key: str, changed: Iterable[Path]) -> None:
    """Write anew the files beside the iterations of changed ladders."""
    ladders = {path.parent for path in changed if path.name == "results.jsonl" and path.parents[2].name == "logs"}
    for folder in sorted(ladders):
        newest = {each.iteration: each for each in read(folder / "results.jsonl", Record)[0]}
        for name, record in newest.items():
            path = tree.source(key, record.shape_key, record.model, name)
            if path.is_file():
                companion_files.write(tree, tree.parse(path), record)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {explained(error)}") from error
