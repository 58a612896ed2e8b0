"""A run over the opponents of problems: reuse records, measure what is installed, and record each outcome."""

from dataclasses import dataclass

from harness.catalog.opponents import Opponent, OpponentEntry, Opponents
from harness.catalog.tree import Tree
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Settings
from harness.judge.contract import Terms
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.judge.facts.problem import Problem
from harness.judge.pipeline import judged
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.base import Environment
from harness.records.environment import describe
from harness.records.results import Record
from harness.records.store import append, read
from harness.runs.result_line import result_line
from harness.runs.run import TURNS, alone, prepare, record_of

Work = tuple[Opponent, OpponentEntry]


@dataclass(frozen=True, slots=True)
class OpponentPlan:
    """Problems of one GPU key, for their opponents; ``again`` repeats what is recorded."""

    tree: Tree
    gpu: Gpu
    device: Device | None
    problems: tuple[Problem, ...]
    settings: Settings
    again: bool = False

    def environment(self, problem: Problem) -> Environment:
        return describe(self.tree.root, self.gpu, self.device, problem.operator)


def measure(plan: OpponentPlan, reporter: Reporter) -> list[Record]:
    """Measure each opponent that serves a problem, beside the library. One that fails has a line and a record."""
    opponents = Opponents.of(plan.tree.root)
    work = [(each, each.entry(p, plan.gpu)) for p in plan.problems for each in opponents.serving(p, plan.gpu)]
    for opponent in dict.fromkeys(opponent.name for opponent, _ in work if opponent.missing):
        missing = next(each.missing for each, _ in work if each.name == opponent)
        reporter.finished(f"skipped   opponent {opponent}: {missing}", advance=False)
    here = [(opponent, entry) for opponent, entry in work if not opponent.missing]
    known = {entry: None if plan.again else reusable(plan, entry) for _, entry in here}
    records = [record for record in known.values() if record is not None]
    for record in records:
        reporter.finished(result_line(record, plan.gpu, reused=True))
    waiting = [(opponent, entry) for opponent, entry in here if known[entry] is None]
    return records + (_carry_out(plan, waiting, reporter) if waiting else [])


def reusable(plan: OpponentPlan, entry: OpponentEntry) -> Record | None:
    """The record that another run of the same opponent would only repeat."""
    source, imports = source_sha256(entry.path), families_sha256(plan.tree.root, entry.path)
    same = (
        record
        for record in reversed(read(plan.tree.opponents(entry.gpu, entry.shape_key), Record)[0])
        if record.iteration == entry.name
        and (record.source_sha256, record.families_sha256) == (source, imports)
        and record.environment.described == plan.environment(entry.problem)
    )
    return fault_attribution.standing(same, plan.gpu)


def _carry_out(plan: OpponentPlan, waiting: list[Work], reporter: Reporter) -> list[Record]:
    records = []
    with alone(plan.tree, plan.gpu, plan.device):
        prepare(plan.gpu, plan.device, reporter)
        referees = Referees(plan.tree.root, plan.gpu)
        try:
            for opponent, entry in waiting:
                for turn in range(TURNS):
                    reporter.doing(f"opponent {entry}")
                    record = _measured(plan, opponent, entry, referees)
                    append(plan.tree.opponents(entry.gpu, entry.shape_key), record)
                    if turn + 1 == TURNS or not fault_attribution.is_retried(record.cause, plan.gpu):
                        break
                records.append(record)
                reporter.finished(result_line(record, plan.gpu))
        finally:
            referees.leave()
    return records


def _measured(plan: OpponentPlan, opponent: Opponent, entry: OpponentEntry, referees: Referees) -> Record:
    candidate = Candidate.enter(entry, plan.tree.root, plan.gpu, plan.device, plan.settings, referees)
    candidate.terms = Terms(opponent.what, None, opponent.config)
    return record_of(candidate, judged(candidate), plan.environment(entry.problem))
