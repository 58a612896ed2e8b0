"""Pinning: the pick of a search as the next iteration, with what was searched and what it beat in its idea."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.authoring import scaffold
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.extras.tune.record import Pick, RankedCandidate
from harness.extras.tune.space import constant, text, words
from harness.extras.tune.survey import SpaceEntry
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.sustained import SustainedMeasurement

TAG = "tuned"


def pin(
    tree: Tree, problem: Problem, gpu: Gpu, model: str, entry: SpaceEntry, idea: str, parent: str | None = None
) -> Iteration:
    """Write the winner as the next iteration of its folder, and hold it to the contract."""
    tag = f"{TAG}_{entry.family.rpartition('.')[2]}"[:31].rstrip("_")
    ladder = scaffold.LadderFiles(tree, gpu, problem, model)
    with scaffold.alone(tree):
        number, base = ladder.next_number, ladder.parent(parent) or ladder.baseline()
        source = scaffold.kernel(entry.family, idea, entry.config, base.name, wrapped=entry.wrapped)
        iteration = ladder.write(number, tag, source)
    try:
        contract.check(iteration)
    except contract.Breach as breach:
        raise InfrastructureError(
            f"{tree.short(iteration.path)}: the pinned winner breaks the contract: {breach}"
        ) from None
    return iteration


def already(tree: Tree, folder: Path, picks: Sequence[Pick], entry: SpaceEntry) -> Iteration | None:
    """The iteration that an earlier search pinned with the same configuration, if it still lies there."""
    for pick in reversed(picks):
        path = folder / f"{pick.iteration}.py"
        if pick.family == entry.family and text(pick.config) == text(entry.config) and path.is_file():
            return tree.parse(path)
    return None


def raced(entries: Sequence[SpaceEntry], order: Sequence[RankedCandidate], ties: int, baseline: str) -> str:
    """The idea of a winner by race: one sentence. ``order`` is best first, and its first ``ties`` + 1 were left."""
    winner = order[0]
    assert winner.estimate is not None
    ratio = winner.estimate.ratio
    found = f"ratio {ratio:.4f} to {baseline} in paired blocks" + (f", level with {ties} more" if ties else "")
    for second in order[ties + 1 :]:
        if second.ratio is not None:
            found += f", {ratio / second.ratio - 1:.1%} ahead of the next, which has {_differing(second, winner)}"
            break
    return _idea("a race", entries, found)


def sustained(
    entries: Sequence[SpaceEntry],
    found: Mapping[str, SustainedMeasurement],
    winner: RankedCandidate,
    leader: RankedCandidate,
) -> str:
    """The idea of a winner at the power limit, of the race's first candidates: one sentence."""
    figure, held = found[winner.trial.key], found.get(leader.trial.key)
    reached = f"reaches {held.ratio:.4f}" if held is not None else "did not pass there"
    beside = f"the leader of the race, which has {_differing(leader, winner)}, {reached}"
    if winner is leader:
        beside = "it leads the race too"
    said = f"sustained ratio {figure.ratio:.4f} to {figure.baseline}, and {beside}"
    return _idea(f"the power limit from the first {len(found)} of a race", entries, said)


def autotuned(entries: Sequence[SpaceEntry], order: Sequence[RankedCandidate], latency_ms: float | None) -> str:
    """The idea of a winner by TileLang's own autotuner; ``order`` is by its latency, empty where its cache answered."""
    found = "from its cache" if latency_ms is None else f"{latency_ms:.4g} ms by its own profiler"
    for second in order[1:]:
        if second.trial.latency_ms is not None:
            found += f", {second.trial.latency_ms:.4g} ms for the next, which has {_differing(second, order[0])}"
            break
    return _idea("TileLang's autotuner", entries, found)


def _idea(chooser: str, entries: Sequence[SpaceEntry], found: str) -> str:
    families = " and ".join(dict.fromkeys(each.family.rpartition(".")[2] for each in entries))
    fixed = constant([each.config for each in entries])
    names = dict.fromkeys(name for each in entries for name in each.config if name not in fixed)
    varied = f"varied in {', '.join(names)}" if names else "nothing varied"
    return f"Picked by {chooser} of {len(entries)} configurations of {families}, {varied}: {found}."


def _differing(other: RankedCandidate, winner: RankedCandidate) -> str:
    """The levers in which a candidate differs from the winner; its family too, where that is another."""
    ours = winner.trial.config
    found = {
        name: value for name, value in other.trial.config.items() if text({"": ours.get(name)}) != text({"": value})
    }
    return words(found if other.trial.family == winner.trial.family else {"family": other.trial.family, **found})
