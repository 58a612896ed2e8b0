"""The leaders of one GPU key's board, as iterations of another key of the same architecture."""

from contextlib import suppress

import msgspec

from harness.authoring.scaffold import LadderFiles, alone
from harness.boards import leaderboard
from harness.boards.board import newest
from harness.catalog.fitting import lacking
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import source_sha256


class Transferred(msgspec.Struct, frozen=True):
    """Paths of the new iterations of ``gpu``, each after its parent; ``known`` counts the leaders that were there."""

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
            f"{source.key} has the architecture {source.arch}, and {target.key} has {target.arch}: kernels "
            "of one do not run on the other; name a GPU of the same architecture with --gpu"
        )
    boards, complaints = leaderboard.boards(tree, source.key, selection)
    rows = (row for board in newest(boards).values() for row in board.rows if row.rank == 1)
    leaders = [tree.parse(tree.source(source.key, row.problem, row.model, row.iteration)) for row in rows]
    kernels = [each for each in leaders if each.number > 0]
    if not kernels:
        raise UsageError(f"no kernel leads a problem of {source.key} that is selected; leaderboard shows its ladders")
    paths: list[str] = []
    known = 0
    with alone(tree):
        before = {each.key for each in tree.scan(target.key, Selection())[0]}
        for leader in kernels:
            added, complaint = _copied(tree, leader, target)
            paths += added
            complaints += [complaint] if complaint else []
            known += complaint is None and leader.key in before
    return Transferred(target.key, tuple(paths), known), complaints


def _copied(tree: Tree, leader: Iteration, target: Gpu) -> tuple[list[str], str | None]:
    """Paths of the new iterations of one leader's line, or why it cannot stand there."""
    if reason := lacking(leader.problem, target):
        return [], f"{leader}: {reason}"
    ladder = LadderFiles(tree, target, leader.problem, leader.model)
    present = {each.number: each for each in ladder.present}
    line = _line(tree, leader)
    for each in line:
        other = present.get(each.number, each)
        if (other.name, source_sha256(other.path)) != (each.name, source_sha256(each.path)):
            taken = f"{tree.short(other.path)} has the number of {each.name}, and another source"
            return [], f"{leader} is left out: {taken}"
    new = [each for each in line if each.number not in present]
    try:
        texts = [each.path.read_text(encoding="utf-8") for each in new]
    except UnicodeDecodeError:
        return [], f"{leader} is left out: its line is not in UTF-8"
    written = [ladder.write(each.number, each.tag, text) for each, text in zip(new, texts, strict=True)]
    return [tree.short(each.path) for each in written], None


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
