"""The leaders of one GPU key's board, as iterations of another key of the same architecture."""

from contextlib import suppress

import msgspec

from harness.boards import leaderboard
from harness.boards.board import newest
from harness.catalog import names
from harness.catalog.fitting import lacking
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.machine import files


class Transferred(msgspec.Struct, frozen=True):
    """What the ladders of ``gpu`` got: paths of new iterations, each after its parent, and the leaders they had."""

    gpu: str
    paths: tuple[str, ...]
    known: int


def transfer(tree: Tree, source: Gpu, target: Gpu, selection: Selection) -> tuple[Transferred, list[str]]:
    """Copy the leaders that the target lacks, with what they descend from. Returns complaints about those left out.

    Raises UsageError where the kernels of one cannot run on the other, or where nothing leads.
    """
    if source.key == target.key:
        raise UsageError(f"{source.key} has these already; name another GPU with --gpu")
    if source.arch != target.arch:
        raise UsageError(
            f"{source.key} is {source.arch}, and {target.key} is {target.arch}: kernels of one do not run on the "
            "other; name a GPU of the same architecture with --gpu"
        )
    boards, complaints = leaderboard.boards(tree, source.key, selection)
    rows = (row for board in newest(boards).values() for row in board.rows if row.rank == 1)
    leaders = [tree.parse(tree.source(source.key, row.problem, row.model, row.iteration)) for row in rows]
    kernels = [each for each in leaders if each.number > 0]
    if not kernels:
        raise UsageError(f"no kernel leads a problem of {source.key} that is selected; leaderboard shows its ladders")
    paths: list[str] = []
    known = 0
    for leader in kernels:
        added, complaint = _copied(tree, leader, target)
        paths += added
        complaints += [complaint] if complaint else []
        known += not added and not complaint
    return Transferred(target.key, tuple(paths), known), complaints


def _copied(tree: Tree, leader: Iteration, target: Gpu) -> tuple[list[str], str | None]:
    """Paths of the new iterations of one leader's line, or why it cannot stand there."""
    if reason := lacking(leader.problem, target):
        return [], f"{leader}: {reason}"
    folder = tree.sources(target.key, leader.shape_key, leader.model)
    present = {parsed[0]: path for path in folder.glob("*.py") if (parsed := names.parsed(path.stem))}
    new = []
    for each in _line(tree, leader):
        content, place = each.path.read_bytes(), folder / each.path.name
        other = present.get(each.number)
        if other is None:
            new.append((place, content))
        elif other.name != each.path.name or other.read_bytes() != content:
            return [], f"{leader} is left out: {tree.short(other)} has the number of {each.name}, and another source"
    for place, content in new:
        files.put(place, content)
    return [tree.short(place) for place, _ in new], None


def _line(tree: Tree, leader: Iteration) -> list[Iteration]:
    """What the leader descends from, as far as the files keep the contract, and the leader."""
    line = [leader]
    with suppress(contract.Breach):
        while (parent := contract.check(line[0]).parent) is not None:
            before = tree.parse(leader.path.with_name(f"{parent}.py"))
            if before in line:
                break
            line.insert(0, before)
    return line
